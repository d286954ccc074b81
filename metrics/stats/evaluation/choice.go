package evaluation

// Criteria for a Choice.
const (
	ByHeldOut = "held_out_reward" // after Round rounds
	ByRecent  = "recent_reward"   // mean over the recent rounds, of which Round is the last
	ByOrder   = "first"           // no reward is known
)

// Choice is a node of a run and the criterion for choosing it.
type Choice struct {
	Node   string
	By     string
	Reward float64
	Round  int
}
