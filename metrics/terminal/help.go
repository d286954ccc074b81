package terminal

// helpBook lists every key, as does `docs/CLI.md`.
var helpBook = newBook(100,
	"everywhere",
	"  q               leave, the run continues; in swarm up: stop, after a question",
	"  ctrl+c          the same without the question; a second one stops at once",
	"  esc             back to the previous page",
	"  ?               this page",
	"  / n N           search; next, previous place (small letters find capital ones)",
	"",
	"the run",
	"  up down k j     choose a node; pgup pgdown home end g G go further",
	"  enter           the node: rewards, memory, restarts, its log",
	"  l               the logs of the coordinator and all nodes, by time",
	"  e               the events",
	"",
	"a node",
	"  left right      previous and next node (also up, down, k, j)",
	"  l enter         its log",
	"",
	"lines",
	"  up down k j     scroll; pgup pgdown space b home end g G go further",
	"  left right      scroll long lines sideways",
	"  f               follow new lines, or stop following",
	"",
	"The mouse wheel scrolls if the terminal sends arrow keys for it. Most do.",
	"A run of swarm up ends with its terminal. To keep it running, start",
	"it with --detach and watch it with swarm attach.",
)

func newHelp() page { return &pager{title: "keys", book: helpBook} }
