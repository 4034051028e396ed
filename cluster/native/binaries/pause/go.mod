module agent-sandbox/cluster/native/pause

go 1.26
