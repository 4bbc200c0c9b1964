package pgtest

// Dir is the folder of a private server.
func Dir(s *Server) string { return s.group.Dir }
