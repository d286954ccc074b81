// Package sharedir carries a swarm through a folder that Google Drive, Dropbox, Syncthing, NFS or a USB stick
// synchronizes: rollouts (Dir is an exchange.Exchange), the messages of membership (DialUplink, ServeAdmission),
// snapshots of the database, and what rl-swarm's nodes read and write. docs/SHARED.md describes the files.
//
// It counts on nothing but that a file comes over whole some day. There are no locks and no renames; listings may be
// late, reordered or bring back what was deleted; a file may be there empty or half; a copy may have another suffix;
// clocks are never compared. So every file is written once and never changed, and its name holds the length and the
// hash of its content: a reader takes what matches its name, and looks again later at what doesn't.
//
// Whoever can write the folder can write anything into it: its own access list is the admission. What is read is
// bounded, checked and never followed out of the folder. A worker's nodes write their batches straight into the folder,
// as the coordinator's do: an offer that the coordinator passes on would take two journeys through the sync instead of
// one, and protect nothing that the folder doesn't leave open anyway.
//
// It imports exchange, membership and zstd, nothing else of ours.
package sharedir
