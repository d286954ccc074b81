// Package sharedir implements a swarm's transport through a folder that Google Drive, Dropbox, Syncthing, NFS or a USB
// stick synchronizes. It carries rollouts (Dir is an exchange.Exchange), the messages of membership (DialUplink,
// ServeAdmission), snapshots of the database, and the files of rl-swarm's nodes. docs/SHARED.md describes the files.
//
// The package assumes only that a file eventually arrives complete. There are no locks and no renames. Listings may be
// late, reordered or show deleted files again. A file may be empty or incomplete. A copy may have another suffix.
// Clocks are never compared. So every file is written once and never changed. Its name contains the length and the hash
// of its content. A reader uses a file that matches its name, and retries one that doesn't.
//
// Anyone who can write the folder can write anything into it, so the folder's access list controls admission. Readers
// bound and check the content and never follow a link out of the folder. A worker's nodes write their batches directly
// into the folder, like the coordinator's nodes. If the coordinator passed on their offers, each batch would be synced
// twice, and security would not improve.
//
// Of this module it imports only exchange, membership and internal packages.
package sharedir
