//go:build !linux

package sharedir

func servePowerCuts() {}
