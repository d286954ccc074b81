package resolve

// Variables of the environment that stand in for a flag where that isn't given. Those that hold secrets are there since
// everybody on a machine can read a process's arguments.
const (
	PriceVariable          = "SWARM_PRICE"           // --price
	InvitationVariable     = "SWARM_JOIN"            // the argument of swarm join: a secret
	DashboardTokenVariable = "SWARM_DASHBOARD_TOKEN" // --token of swarm dashboard: a secret
)
