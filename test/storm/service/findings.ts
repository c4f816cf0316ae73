/** What is wrong with the runs and the readers of a round. */
import type { Reading, ReadEvent } from './reader.ts';

export interface LoggedEvent {
  readonly seq: number;
  readonly id: string;
  readonly type: string;
}

/** @param log  the events of the run, as its store has them */
export function findReaderFaults(reader: string, reading: Reading, log: readonly LoggedEvent[]): readonly string[] {
  const { events, state } = reading;
  const faults = events.flatMap(findStreamIdFault);
  const counts = new Map<string, number>();
  for (const { id } of events) counts.set(id, (counts.get(id) ?? 0) + 1);
  for (const { id } of log) {
    const count = counts.get(id) ?? 0;
    if (count !== 1) faults.push(`it has ${id} ${count} times`);
    counts.delete(id);
  }
  for (const id of counts.keys()) faults.push(`it has ${id}, which the log does not have`);
  const seqs = events.map(({ seq }) => seq);
  if (seqs.some((seq, at) => seq !== at + 1)) faults.push(`its \`seq\` are ${seqs.join(' ')}`);
  if (state !== 'succeeded') faults.push(`the run is ${state} for it`);
  return faults.map((fault) => `${reader}: ${fault}`);
}

function findStreamIdFault({ streamId, seq }: ReadEvent): string[] {
  return streamId === String(seq) ? [] : [`the event with \`seq\` ${seq} has the id ${JSON.stringify(streamId)}`];
}

/** @param answered  the ids that the answers to one key had */
export function findKeyFaults(key: string, answered: readonly string[]): readonly string[] {
  const ids = [...new Set(answered)];
  return ids.length === 1 ? [] : [`the key ${key} has the runs ${ids.join(', ')}`];
}

export function findRunFaults(runId: string, log: readonly LoggedEvent[]): readonly string[] {
  return ['run-admitted', 'run-finished'].flatMap((type) => {
    const count = log.filter((event) => event.type === type).length;
    return count === 1 ? [] : [`${runId}: it has ${type} ${count} times`];
  });
}

/**
 * @param started  the ids that the answers of the round had
 * @param listed  the runs that the service lists for the round
 */
export function findListFaults(started: readonly string[], listed: readonly string[]): readonly string[] {
  const [wanted, found] = [started.toSorted(), listed.toSorted()].map((ids) => ids.join(', '));
  return wanted === found ? [] : [`started ${wanted}; the service lists ${found}`];
}
