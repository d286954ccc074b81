//go:build !linux

package store

func servePowerCuts() {}
