package membership

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/metrics/event"
)

func testConfig() configs.Config {
	c := configs.Default()
	c.Rounds, c.NumTrainSamples, c.NumTransplantTrees, c.NumGenerations = 100, 2, 2, 4
	return c
}

func testExaminer() examiner {
	return examiner{
		run: "run", worker: "w", cfg: testConfig(), rounds: 100,
		owns:    func(node string) bool { return node == "w_0" },
		correct: func(t float64) float64 { return t + 10 },
	}
}

// honest returns events as a worker's launcher sends them.
func honest() []event.Event {
	code := -1
	return []event.Event{
		{Type: event.TypeState, Time: 5, Node: "w_0", State: event.StateBarrier, RoundIndex: 99},
		{Type: event.TypeRound, Time: 5, Node: "w_0", Replayed: true, Round: &event.Round{
			Round: 3, Reward: 0.5, RewardStd: 0.7, Completions: 8, Loss: -1.5, TrainedOwn: 2, TrainedExternal: 2, Late: true,
			NonFinite: map[string]string{"kl": "NaN"}, Tasks: []event.TaskReward{{Task: "bf", Completions: 8, RewardSum: 4}},
			Peers: []event.Peer{{Node: "node_0", Available: 2, Reason: "old"}},
		}},
		{Type: event.TypeEval, Time: 5, Node: "w_0", Eval: &event.Eval{
			Round: 100, Set: "s", Generations: 4, Questions: []event.EvalQuestion{{Task: "bf", Correct: 4, RewardSum: 4}},
		}},
		{Type: event.TypeExit, Time: 5, Node: "w_0", Cause: event.CauseOutOfMemory, ExitCode: &code},
		{Type: event.TypeWarning, Time: 5, Message: "the host's own"},
		{Type: event.TypeDevice, Time: 5, Device: &event.Device{UUID: "GPU-1", Index: 0, PowerWatts: -1}},
		{Type: event.TypeMemory, Time: 5, Node: "w_0", Memory: &event.Memory{RSSBytes: 1 << 40}},
	}
}

func TestHonestEventsAreTakenAsTheyAre(t *testing.T) {
	for _, e := range honest() {
		raw, err := json.Marshal(e)
		require.NoError(t, err)
		got, err := testExaminer().accept(raw)
		require.NoError(t, err, "%s", raw)
		e.Run, e.Worker, e.Time = "run", "w", 15
		require.Equal(t, e, got)
	}
}

func TestWhatMeansNothingHereIsRemoved(t *testing.T) {
	x := testExaminer()
	e, err := x.accept([]byte(`{"type":"spawn","time":1,"node":"w_0","pid":1,"run":"other","worker":"mallory"}`))
	require.NoError(t, err)
	require.Zero(t, e.PID)
	require.Equal(t, []string{"run", "w"}, []string{e.Run, e.Worker})
	e, err = x.accept([]byte(`{"type":"checkpoint","time":1,"node":"w_0","checkpoint":{"round":1,"path":"/etc/shadow","bytes":1}}`))
	require.NoError(t, err)
	require.Empty(t, e.Checkpoint.Path)
	e, err = x.accept([]byte(`{"type":"loaded","time":1,"node":"w_0","loaded":{"engine_pid":1,"model":"m\u001b[31m\u202e` +
		strings.Repeat("x", 5000) + `"}}`))
	require.NoError(t, err)
	require.Zero(t, e.Loaded.EnginePID)
	require.Equal(t, "mxxxx", e.Loaded.Model[:5])
	require.Len(t, e.Loaded.Model, MaxTextBytes)
}

func TestWhatCannotBeIsNotTaken(t *testing.T) {
	for raw, says := range map[string]string{
		`{`:                   "can't be decoded",
		`null`:                "may not send",
		`{"type":"round"}`:    "names no node",
		"{\"type\":\"\xff\"}": "not UTF-8",
		`{"type":"run_ended","time":1,"state":"done"}`:                                                                                 "may not send",
		`{"type":"lease","time":1,"node":"w_0"}`:                                                                                       "may not send",
		`{"type":"join","time":1,"node":"w_0"}`:                                                                                        "may not send",
		`{"type":"worker","time":1,"state":"connected"}`:                                                                               "may not send",
		`{"type":"state","time":1,"node":"node_0","state":"done"}`:                                                                     "belongs to another worker",
		`{"type":"state","time":1,"node":"w_0","state":"away"}`:                                                                        "has no content",
		`{"type":"state","time":0,"node":"w_0","state":"done"}`:                                                                        "time is not valid",
		`{"type":"state","time":1e300,"node":"w_0","state":"done"}`:                                                                    "time is not valid",
		`{"type":"state","time":1e999,"node":"w_0","state":"done"}`:                                                                    "can't be decoded",
		`{"type":"state","time":1,"node":"w_0","state":"done","round_index":101}`:                                                      "is impossible",
		`{"type":"round","time":1,"node":"w_0"}`:                                                                                       "has no content",
		`{"type":"round","time":1,"node":"w_0","round":{"round":100}}`:                                                                 "round 100 does not exist",
		`{"type":"round","time":1,"node":"w_0","round":{"round":-1}}`:                                                                  "round -1 does not exist",
		`{"type":"round","time":1,"node":"w_0","round":{"reward":1.01}}`:                                                               "outside 0 to 1",
		`{"type":"round","time":1,"node":"w_0","round":{"completions":9}}`:                                                             "more completions",
		`{"type":"round","time":1,"node":"w_0","round":{"trained_external":3}}`:                                                        "more completions or groups",
		`{"type":"round","time":1,"node":"w_0","round":{"split_own":99}}`:                                                              "more completions or groups",
		`{"type":"round","time":1,"node":"w_0","round":{"split_external":3}}`:                                                          "more completions or groups",
		`{"type":"round","time":1,"node":"w_0","round":{"steps":-1}}`:                                                                  "count of -1",
		`{"type":"round","time":1,"node":"w_0","round":{"grad_norm":-1e12}}`:                                                           "norm of -1e+12",
		`{"type":"round","time":1,"node":"w_0","round":{"step_time":-1}}`:                                                              "duration",
		`{"type":"round","time":1,"node":"w_0","round":{"sampling_logp_difference_max":-1e-9}}`:                                        "difference of log-probabilities of -1e-09",
		`{"type":"round","time":1,"node":"w_0","round":{"sampling_logp_difference_mean":1e200}}`:                                       "a number of",
		`{"type":"round","time":1,"node":"w_0","round":{"loss":1e200}}`:                                                                "a number of",
		`{"type":"round","time":1,"node":"w_0","round":{"tasks":[{"completions":1}]}}`:                                                 "reward of",
		`{"type":"round","time":1,"node":"w_0","round":{"peers":[{"available":-1}]}}`:                                                  "Available of -1",
		`{"type":"eval","time":1,"node":"w_0","eval":{"round":1,"generations":2,"questions":[{"correct":3}]}}`:                         "3 of 2",
		`{"type":"eval","time":1,"node":"w_0","eval":{"round":101,"generations":2}}`:                                                   "is impossible",
		`{"type":"memory","time":1,"node":"w_0","memory":{"rss_bytes":-5}}`:                                                            "RSSBytes of -5",
		`{"type":"memory","time":1,"node":"w_0","memory":{"rss_bytes":9223372036854775807}}`:                                           "a number of",
		`{"type":"device","time":1,"device":{}}`:                                                                                       "has no content",
		`{"type":"warning","time":1,"message":"` + strings.Repeat("x", MaxEventBytes) + `"}`:                                           "bytes, more than",
		`{"type":"round","time":1,"node":"w_0","round":{"peers":[` + strings.Repeat("{},", 20000) + `{}]}}`:                            "a list of",
		`{"type":"round","time":1,"node":"w_0","round":{"peers":[` + strings.Repeat("{},", 64) + `{}]}}`:                               "65 peers",
		`{"type":"round","time":1,"node":"w_0","round":{"tasks":[{"task":"bf"}]}}`:                                                     "for 0 completions",
		`{"type":"eval","time":1,"node":"w_0","eval":{"round":1,"generations":2,"questions":[` + strings.Repeat("{},", 5000) + `{}]}}`: "5001 questions",
		`{"type":"round","time":1,"node":"w_0","round":{"peers":[` + strings.Repeat("0,", 70000) + `0]}}`:                              "too many elements",
		`{"type":"round","time":1,"node":"w_0","round":{"non_finite":{"` + strings.Repeat("x", 100) + `":"NaN"}}}`:                     "too long",
	} {
		_, err := testExaminer().accept([]byte(raw))
		require.ErrorContains(t, err, says, "%.200s", raw)
		require.Less(t, len(err.Error()), 400)
	}
}

// bound must handle every kind of field that an event has, so that new fields are not missed.
func TestBoundKnowsEveryFieldOfAnEvent(t *testing.T) {
	var walk func(reflect.Type, string)
	walk = func(typ reflect.Type, path string) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice:
			walk(typ.Elem(), path)
		case reflect.Struct:
			for i := range typ.NumField() {
				walk(typ.Field(i).Type, path+"."+typ.Field(i).Name)
			}
		case reflect.Map:
			require.Equal(t, reflect.TypeFor[map[string]string](), typ, path)
		case reflect.String, reflect.Int, reflect.Int64, reflect.Float64, reflect.Bool:
		default:
			require.Fail(t, "unbounded", "%s is a %s", path, typ)
		}
	}
	walk(reflect.TypeFor[event.Event](), "event")
}

func FuzzEvent(f *testing.F) {
	for _, e := range honest() {
		raw, err := json.Marshal(e)
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := testExaminer().accept(raw)
		if err != nil {
			return
		}
		require.Equal(t, "w", e.Worker)
		require.True(t, e.Node == "" || e.Node == "w_0")
		again, err := json.Marshal(e)
		require.NoError(t, err, "what is taken can be written")
		require.LessOrEqual(t, len(again), 8*MaxEventBytes)
		if e.Round != nil && e.Type == event.TypeRound {
			require.True(t, e.Round.Reward >= 0 && e.Round.Reward <= 1 && e.Round.Round < 100)
		}
	})
}

func TestAClockIsCorrectedOnceAndForAll(t *testing.T) {
	d := newDrift(SilentAfter / 3)
	require.False(t, d.sample(1000, 999.5), "half a second on the way is no drift")
	require.Zero(t, d.offset)
	require.True(t, d.sample(1001, 1001+3600))
	require.InDelta(t, -3600, d.offset, 1)
	for i := range 20 {
		require.False(t, d.sample(1002+float64(i), 1002+float64(i)+3600-float64(i%3)), "the way's jitter changes nothing")
	}
	require.InDelta(t, 1100, d.correct(2000, 1100+3600), 1)
	require.Equal(t, 900.0, d.correct(900, 1000+3600), "nothing has happened later than now")
	changed := false
	for i := range driftSamples {
		changed = d.sample(2000+float64(i), 2000+float64(i)) || changed
	}
	require.True(t, changed, "and when it is set right")
	require.Zero(t, d.offset)
	for _, nonsense := range []float64{0, -1} {
		require.False(t, d.sample(5000, nonsense))
	}
}

func ExampleRefuse() {
	fmt.Println(Refuse(CodeRate, "wait %d s", 3))
	// Output: wait 3 s
}
