package workers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/files"
	"github.com/sapo-swarm/swarm/internal/layout"
	"github.com/sapo-swarm/swarm/internal/powercut"
	"github.com/sapo-swarm/swarm/metrics/event"
	"github.com/sapo-swarm/swarm/metrics/store"
	"github.com/sapo-swarm/swarm/node/exchange/membership"
	"github.com/sapo-swarm/swarm/node/exchange/natsbus"
)

// Copies of the test binary act as the coordinator and the worker of TestPowerCutsOfBothSides, which kills them.
const (
	partVariable  = "WORKERS_TEST_PART" // coordinator or worker
	homeVariable  = "WORKERS_TEST_HOME"
	whereVariable = "WORKERS_TEST_WHERE" // the listen address, or the invitation
	firstVariable = "WORKERS_TEST_FIRST" // number of the worker's first event

	partRun  = "cuts-1"
	partNode = "anna_0"
	partLife = 10 * time.Minute // maximum lifetime, in case the test fails
)

func playPart() {
	powercut.Serve()
	play := map[string]func(context.Context, string) error{"coordinator": playCoordinator, "worker": playWorker}[os.Getenv(partVariable)]
	if play == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), partLife)
	defer cancel()
	if err := play(ctx, os.Getenv(homeVariable)); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// partEvents records events as a coordinator does.
type partEvents struct{ store *store.Store }

func (e partEvents) Record(what event.Event) {
	what.Run = partRun
	_ = e.store.Record(context.Background(), what)
}

func (e partEvents) Deliver(ctx context.Context, worker string, d membership.Delivery, list []event.Event) error {
	_, err := e.store.Deliver(ctx, store.Delivery{Run: partRun, Worker: worker, Outbox: d.Outbox, First: d.First, Events: list})
	return err
}

func (e partEvents) Warn(message string) { fmt.Fprintln(os.Stderr, message) }
func (e partEvents) Fail(why error)      { fmt.Fprintln(os.Stderr, why) }
func (e partEvents) Go(work func())      { go work() }

// playCoordinator admits workers until stdin closes, and prints the invitation.
func playCoordinator(ctx context.Context, dir string) error {
	home := layout.Home(dir)
	if err := files.MakeFolder(home.Run(partRun), 0o700); err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	database, err := store.Open(ctx, filepath.Join(dir, "swarm.db"), store.Options{})
	if err != nil {
		return err
	}
	config := configs.Default()
	config.Rounds = 1000
	started := store.Run{Run: partRun, Experiment: "cuts", Model: "m", Device: "cpu", Rounds: config.Rounds, NumGenerations: 1, NumTrainSamples: 1,
		Config: json.RawMessage("{}"), Host: "h", PID: os.Getpid(), BootID: "b", Started: event.Now()}
	if err := database.StartRun(ctx, started); err != nil {
		return fmt.Errorf("start the run: %w", err)
	}
	reader, err := store.OpenReader(ctx, database.Path())
	if err != nil {
		return err
	}
	admission := NewAdmission(Options{Listen: os.Getenv(whereVariable)})
	run := Run{Name: partRun, Dir: home.Run(partRun), Home: home, Config: config, Document: json.RawMessage("{}"), Version: "v1",
		Reader: reader, Store: database, Logger: logger}
	for { // the port of the previous process may not be free yet
		if _, err = admission.Open(ctx, run); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
	if err := admission.Start(ctx, run, partEvents{database}, logger); err != nil {
		return err
	}
	invitation, err := os.ReadFile(InvitationPath(home))
	if err != nil {
		return err
	}
	fmt.Print("ready ", string(invitation))
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
	}
	return database.Close()
}

// playWorker reports numbered events until it reads a line from stdin, then delivers the rest. It prints which
// events are synced.
func playWorker(ctx context.Context, dir string) error {
	invitation, err := membership.ParseInvitation(os.Getenv(whereVariable))
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	credentials, err := partCredentials(ctx, filepath.Join(dir, "joined", "credentials.json"), invitation)
	if err != nil {
		return err
	}
	uplink, err := natsbus.DialUplink(ctx, natsbus.UplinkOptions{Invitation: invitation, Credentials: credentials})
	if err != nil {
		return err
	}
	defer uplink.Close()
	process := strconv.Itoa(os.Getpid())
	for { // a previous process may still count as connected
		_, err = uplink.Hello(ctx, membership.Hello{Protocol: membership.Protocol, Version: "v1", Host: "h", Process: process, Time: event.Now()})
		var refusal *membership.Refusal
		if !errors.As(err, &refusal) || refusal.Code != membership.CodeName {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	if _, err := uplink.Join(ctx, membership.Join{Protocol: membership.Protocol, Run: partRun, Device: "cpu",
		Nodes: []membership.NodeInfo{{Name: partNode, Model: "m"}}}); err != nil {
		return err
	}
	outbox, err := membership.OpenOutbox(filepath.Join(dir, "runs", partRun, "outbox"), logger)
	if err != nil {
		return err
	}
	client := membership.DeliveryClient{Uplink: uplink, Outbox: outbox, Run: partRun, Process: process, Interval: 100 * time.Millisecond,
		Progress: func() []membership.Progress {
			return []membership.Progress{{Node: partNode, State: event.StateGenerating}}
		}, Logger: logger}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- client.Serve(serving) }()
	finish := make(chan bool, 1)
	go func() {
		bufio.NewScanner(os.Stdin).Scan()
		finish <- true
	}()
	first, err := strconv.Atoi(os.Getenv(firstVariable))
	if err != nil {
		return err
	}
	for n := first; ; n++ {
		select {
		case err := <-served:
			return fmt.Errorf("served no more: %w", err)
		case <-finish:
			stop()
			<-served
			if err := client.Drain(ctx); err != nil {
				return err
			}
			fmt.Println("delivered")
			return outbox.Close()
		case <-time.After(5 * time.Millisecond):
		}
		if err := outbox.Append(event.Event{Type: event.TypeWarning, Time: event.Now(), Node: partNode, Message: strconv.Itoa(n)}); err != nil {
			return err
		}
		if n%5 == 4 {
			if err := outbox.Sync(); err != nil {
				return err
			}
			waits, _ := outbox.Pending()
			fmt.Println("synced", n, waits)
		}
	}
}

// partCredentials returns the worker's credentials from its disk or from the coordinator.
func partCredentials(ctx context.Context, path string, invitation membership.Invitation) (c membership.Credentials, err error) {
	data, err := os.ReadFile(path)
	if err == nil {
		return c, json.Unmarshal(data, &c)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	if c, err = natsbus.Enrol(ctx, invitation, "anna", natsbus.TLSOptions{}); err != nil {
		return c, err
	}
	if data, err = json.Marshal(c); err == nil {
		err = files.MakeFolder(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = files.WriteSecret(path, data)
	}
	return c, err
}
