package mps

// Fault is an error of a GPU's MPS server that ends the server's clients.
type Fault struct {
	GPU       int             // index of the GPU
	Message   string          // one line for the user
	Recovered <-chan struct{} // closed when clients may start again; nil: at once. It may wait until all of them are gone
	Fatal     bool            // MPS will not recover
}
