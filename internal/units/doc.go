// Package units parses and formats quantities for people: sizes, durations, money, counts with their nouns, and
// names close to a mistyped one. It imports nothing of this module.
package units
