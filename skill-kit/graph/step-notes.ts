/** The notes in a drawing next to a step's name and along its edges. */
import type { EdgeKind, GraphStep } from './skill-graph.ts';

export const EDGE_LABELS: Readonly<Record<EdgeKind, string>> = {
  next: '',
  if: 'if',
  else: 'else',
  possible: 'may',
  unknown: 'decided at run time',
  'max-visits': 'at the limit',
  expiry: 'too late',
  parallel: 'parallel',
};

export function notesOf(step: GraphStep): readonly string[] {
  const notes: string[] = [];
  if (step.human) {
    const time = step.human.deadlineMs === null ? '' : ` within ${duration(step.human.deadlineMs)}`;
    notes.push(`human${step.human.assignee === null ? '' : ` (${step.human.assignee})`}${time}`);
  } else if (step.prompt) notes.push('prompt');
  if (step.action) notes.push('action');
  if (step.wait) notes.push(step.wait.durationMs === null ? 'wait' : `wait ${duration(step.wait.durationMs)}`);
  if (step.call !== null) notes.push(`calls ${step.call}`);
  if (step.joinsAt !== null) notes.push(`parallel until ${step.joinsAt}`);
  if (step.joinOf.length > 0) notes.push(`join of ${step.joinOf.join(', ')}`);
  if (step.maxVisits !== null) notes.push(`at most ${step.maxVisits} ${step.maxVisits === 1 ? 'visit' : 'visits'}`);
  if (!step.isReachable) notes.push('never reached');
  return notes;
}

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
] as const;

/** In the largest unit that fits without a rest. */
function duration(durationMs: number): string {
  const [unit, sizeMs] = UNITS.find(([, size]) => durationMs >= size && durationMs % size === 0) ?? ['ms', 1];
  return `${durationMs / sizeMs} ${unit}`;
}
