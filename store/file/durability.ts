/**
 * What an append survives by the time that it returns.
 *
 * - `process`: the death of any process. A power cut may take the last seconds of a log, and what the server remembers of its
 *   stages is written again when the worker starts.
 * - `power`: a power cut, too.
 *
 * The first and the last event of a run, artifacts and admissions are on the disk either way.
 */
export type Durability = 'process' | 'power';
