package main

import (
	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/launcher/workers"
)

// addAdmissionFlags defines up's ways for other hosts to join.
func addAdmissionFlags(fs *pflag.FlagSet, o *workers.Options) {
	fs.StringVar(&o.Listen, "listen", "", "let others join over the network: `address` to listen on with TLS, such as :4222; prints the line they type")
	fs.StringVar(&o.Advertise, "advertise", "", "`host` or host:port, or several with commas, by which others reach this host (default: its addresses)")
	fs.StringVar(&o.Cert, "tls-cert", "", "`file` of a certificate of one's own for --listen (default: a self-signed one, pinned by its fingerprint)")
	fs.StringVar(&o.Key, "tls-key", "", "`file` of its private key")
	fs.StringVar(&o.NATS, "nats", "", "carry the swarm over a NATS cluster instead of an own server: `URL`s with commas")
	fs.StringVar(&o.NATSFile, "nats-file", "", "`file` of mode 0600 with what --nats takes: where the URLs hold a password")
	fs.StringVar(&o.Credentials, "nats-creds", "", "credentials `file` for --nats")
	fs.StringVar(&o.Shared, "shared", "", "carry the swarm through a synced `folder` such as a mounted Google Drive (with NODE_ROLE=coordinator: GDRIVE_PATH)")
	fs.BoolVar(&o.Compat, "compat", false, "with --shared: also write the files that the predecessor's nodes read")
}
