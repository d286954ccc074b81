package queue

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sapo-swarm/swarm/internal/units"
)

// Verdict is the result of Ticket.Try.
type Verdict struct {
	Granted  bool
	Position int      // in the queue, from 1; skips tickets with an absent owner or without a reservation
	InFront  []string // names of the first few earlier tickets
	Need     Need
	Devices  []Shortfall // for the GPUs that it may use; empty: there is no such GPU
	Blind    error       // error of looking at the GPUs; nil: none
	Never    bool        // no GPU is large enough, even empty
}

// Shortfall is the reason why a ticket did not get a GPU. Memory is in bytes.
type Shortfall struct {
	GPU     string
	Index   int
	Name    string
	Total   int64
	Free    int64    // by the driver
	Unused  int64    // part of Free that tickets have claimed but don't use yet
	Missing int64    // bytes that the need lacks; 0: enough is free
	KeptFor string   // name of the earlier ticket with a reservation, if that is the reason
	Alone   bool     // a ticket has it exclusively, or this ticket needs it exclusively and others have claims there
	Holders []string // names of the first few tickets with claims there
}

// namesShown is the maximum number of earlier tickets that a verdict names.
const namesShown = 3

// pass counts an earlier ticket.
func (v *Verdict) pass(e *Entry) {
	v.Position++
	if len(v.InFront) < namesShown {
		v.InFront = append(v.InFront, e.Name)
	}
}

// describe sets the reasons for each device.
func (v *Verdict) describe(e *Entry, open []*account) {
	v.Never = len(open) > 0
	for _, s := range open {
		v.Never = v.Never && s.Total < e.Need.amount()
		f := Shortfall{
			GPU: s.GPU, Index: s.Index, Name: s.Name, Total: s.Total, Free: s.Free, Unused: min(s.Free, max(0, s.Free-s.free)),
			Missing: max(0, e.Need.amount()-max(0, s.free)),
			Alone:   s.exclusive || e.Need.Exclusive && s.taken,
		}
		for _, h := range s.held {
			if h.name != "" && len(f.Holders) < namesShown {
				f.Holders = append(f.Holders, h.name)
			}
		}
		if f.Missing == 0 && !f.Alone && s.keptFor != nil {
			f.KeptFor = s.keptFor.Name
		}
		v.Devices = append(v.Devices, f)
	}
	slices.SortFunc(v.Devices, func(a, b Shortfall) int { return a.Index - b.Index })
}

// String returns one line for the user: the need of the ticket, and the missing memory of each GPU.
func (v Verdict) String() string {
	if v.Granted {
		return "may start now"
	}
	var b strings.Builder
	need := v.Need.String()
	if v.Need.GPU != "" && v.Need.GPU != CPU && len(v.Devices) == 1 {
		need = strings.Replace(need, v.Need.GPU, strconv.Itoa(v.Devices[0].Index), 1) // users know the GPU's index
	}
	b.WriteString("waits for " + need)
	if v.Blind != nil {
		what, _, _ := strings.Cut(v.Blind.Error(), ". Try: ")
		return b.String() + ": " + what
	}
	if v.Position > 1 {
		fmt.Fprintf(&b, ", number %d in the queue behind %s", v.Position, strings.Join(v.InFront, ", "))
		if more := v.Position - 1 - len(v.InFront); more > 0 {
			fmt.Fprintf(&b, " and %d more", more)
		}
	}
	const most = 8
	separator := ": "
	for i, r := range v.Devices {
		b.WriteString(separator)
		if separator = "; "; i == most {
			fmt.Fprintf(&b, "%d more", len(v.Devices)-most)
			break
		}
		b.WriteString(r.String())
	}
	if len(v.Devices) == 0 {
		b.WriteString(": there is none")
	}
	return b.String()
}

// needs is String for a ticket that doesn't wait.
func (v Verdict) needs() string { return strings.Replace(v.String(), "waits for", "needs", 1) }

// less returns a smaller request that the user could try.
func (v Verdict) less() string {
	if v.Need.Exclusive && slices.ContainsFunc(v.Devices, func(f Shortfall) bool { return f.Alone }) {
		return "--memory SIZE for each job, so that they share a GPU"
	}
	return "a smaller --memory or --min-gpu-memory"
}

// String describes the need for the user.
func (n Need) String() string {
	device := "a GPU"
	switch {
	case n.GPU == CPU:
		device = "the host"
	case n.GPU != "":
		device = "GPU " + n.GPU
	}
	if n.Exclusive {
		device += " alone"
	}
	if n.amount() == 1 {
		return device
	}
	return fmt.Sprintf("%s with %s free", device, units.Bytes(n.amount()))
}

// String describes the reason for the user.
func (f Shortfall) String() string {
	where := fmt.Sprintf("GPU %d", f.Index)
	if f.GPU == CPU {
		where = "the host"
	}
	text := fmt.Sprintf("%s has %s free of %s", where, units.Bytes(f.Free), units.Bytes(f.Total))
	holders := strings.Join(f.Holders, ", ")
	if f.Unused > 0 && !f.Alone {
		text += fmt.Sprintf(", %s of it claimed", units.Bytes(f.Unused))
		if holders != "" {
			text += " by " + holders
		}
	}
	switch {
	case f.KeptFor != "":
		text += ", kept for " + f.KeptFor
	case f.Alone && holders != "":
		text += ", in use by " + holders
	case f.Alone:
		text += ", not shared"
	}
	return text
}
