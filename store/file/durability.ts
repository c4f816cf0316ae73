/**
 * The failures that an append survives once it has returned.
 *
 * - `process`: the death of any process. A power cut may take the last seconds of a log. A worker that starts then
 *   writes again the events of stages that the server remembers.
 * - `power`: a power cut, too.
 *
 * The first and the last event of a run, artifacts and admissions are on the disk either way.
 */
export type Durability = 'process' | 'power';
