package table

// Facts returns a table of names, values and notes beneath a heading of its own.
func Facts() *Table {
	t := New(Column{}, Column{}, Column{Wrap: true})
	t.Indent = 2
	return t
}
