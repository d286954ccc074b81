package queue

// Unclaimed returns the free memory of devices for processes outside the queue. This is the driver's free memory
// minus the unused part of claims, and 0 if a claim is exclusive. The map claimants has the names of the tickets with
// a claim, by GPU.
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
