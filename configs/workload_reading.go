package configs

// WorkloadReading is the value that a training's files have for one value of a Workload.
type WorkloadReading struct {
	Stage   string // the stage that the value belongs to; "" for the Workload's own
	Name    string // of the value
	File    string // the first place with a value, relative to the training's folder; "" if none has one
	Line    int    // in File, from 1
	Text    string // the value as written, without quotes; the largest if places differ
	Usable  bool   // Text is a number that can be used
	Problem string // why the value is unclear: missing, not a number, or places that differ; "" if it is clear
}
