/** The artifacts that the events of a run name for people: outputs of its stages, and its result. */
import type { DataRef } from '../domain/plan/plan.ts';
import type { RunEvent } from '../domain/run/event.ts';

/** Returns the artifacts that an event names. An artifact that only a text of the event mentions is not among them. */
export function listNamedArtifacts(body: RunEvent['body']): readonly DataRef[] {
  return listRefs(body).filter((ref) => ref !== null && ref !== undefined);
}

function listRefs(body: RunEvent['body']): readonly (DataRef | null | undefined)[] {
  if (body.type === 'run-finished') return [body.outcome.output];
  if (body.type === 'stage-published' || body.type === 'stage-answered') return [body.output];
  if (body.type === 'stage-given') return [body.output, ...Object.values(body.outputs)];
  if (body.type !== 'stage-finished') return [];
  const { result } = body;
  const partial = 'partial' in result ? Object.values(result.partial ?? {}) : [];
  const transcript = 'agent' in result ? [result.agent?.transcript] : [];
  return [result.output, ...Object.values(result.outputs), ...partial, ...transcript];
}
