package queue

// Unclaimed is what devices have free for those who are not in the queue: less than the driver says by what tickets
// have claimed and don't use yet; nothing where one has a GPU to itself. claimants are the names of those with a claim,
// by GPU.
func Unclaimed(entries []Entry, devices []Device) (free map[string]int64, claimants map[string][]string) {
	free, claimants = map[string]int64{}, map[string][]string{}
	for _, r := range devices {
		free[r.GPU] = max(0, newAccount(r, entries).free)
		for i := range entries {
			if c := entries[i].Claim; c != nil && c.GPU == r.GPU {
				claimants[r.GPU] = append(claimants[r.GPU], entries[i].Name)
			}
		}
	}
	return free, claimants
}
