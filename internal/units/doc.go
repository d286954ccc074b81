// Package units reads and writes quantities as people do: sizes of memory and amounts of money. It imports nothing of
// this module.
package units
