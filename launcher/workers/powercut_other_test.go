//go:build !linux

package workers

func playPart() {}
