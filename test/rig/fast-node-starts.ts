/**
 * Node reads the certificates of this variable at each start, which doubles the time of a start. Programs that tests start ask
 * no server that needs them; set-up, which downloads, runs in a process of its own.
 */
delete process.env['NODE_EXTRA_CA_CERTS'];
