package terminal

// helpBook lists every key, as does `docs/CLI.md`.
var helpBook = newBook(100,
	"everywhere",
	"  q               leave, the run goes on; in swarm up: stop, after a question",
	"  ctrl+c          the same without the question; a second one stops at once",
	"  esc             back to the page before",
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
	"  left right      the node before, the next one (up, down, k, j too)",
	"  l enter         its log",
	"",
	"lines",
	"  up down k j     scroll; pgup pgdown space b home end g G go further",
	"  left right      the rest of long lines",
	"  f               follow what is written, or stay here",
	"",
	"The mouse wheel scrolls where the terminal makes arrow keys of it: most do.",
	"A run that swarm up shows belongs to its terminal. To leave one behind, start",
	"it with --detach and watch it with swarm attach.",
)

func newHelp() page { return &pager{title: "keys", book: helpBook} }
