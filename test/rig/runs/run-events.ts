import type { RunEvent, RunEventBody } from '../../../domain/run/event.ts';
import type { StageFailure } from '../../../domain/run/stage-result.ts';
import { project } from '../../../store/projection.ts';
import { emptyView, type RunView } from '../../../store/run-view.ts';

export const EXIT_FAILURE: StageFailure = {
  code: 'stage/exit-nonzero',
  message: 'stage b: exit code 3',
  stderrTail: 'no such row',
};

/** Events with `seq` from 1 and a clock that goes 10 ms a step. */
export function events(bodies: readonly RunEventBody[]): RunEvent[] {
  return bodies.map((body, index) => ({ seq: index + 1, id: `e${index}`, atMs: 1_000 + index * 10, body }));
}

export function viewAfter(bodies: readonly RunEventBody[]): RunView {
  return events(bodies).reduce(project, emptyView('r'));
}
