package resolve

// Environment variables that replace a flag that is not given. Secrets have variables because every user of a machine
// can read a process's arguments.
const (
	PriceVariable          = "SWARM_PRICE"           // --price
	InvitationVariable     = "SWARM_JOIN"            // the argument of swarm join: a secret
	DashboardTokenVariable = "SWARM_DASHBOARD_TOKEN" // --token of swarm dashboard: a secret
)
