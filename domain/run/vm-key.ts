/** The identity of a VM as text. */
import { type InstancePath, formatInstance, parseInstance, PLAN_ID } from './instance.ts';
import { escapeRunId, unescapeRunId } from './run-id.ts';

export interface VmIdentity {
  readonly runId: string;
  readonly scope: string;
  /** The instance of the plan that declares the scope. Items of a part do not share a VM. */
  readonly instance: InstancePath;
  readonly generation: number;
}

const VM_KEY = new RegExp(`^([^/]+)/(${PLAN_ID})(?:/([A-Za-z0-9._~-]+))?/(\\d{1,9})$`);

/**
 * Writes `run/scope/generation`; within an item, the instance comes before the generation. The run's id is escaped, so
 * that it contains no slash and can be typed on a command line.
 */
export function formatVmKey({ runId, scope, instance, generation }: VmIdentity): string {
  return `${escapeRunId(runId)}/${scope}/${instance.length === 0 ? '' : `${formatInstance(instance)}/`}${generation}`;
}

/** Returns null for a text that is not a key. */
export function parseVmKey(text: string): VmIdentity | null {
  const match = VM_KEY.exec(text);
  const runId = match === null ? null : unescapeRunId(match[1] as string);
  if (match === null || runId === null) return null;
  const instance = match[3] === undefined ? [] : parseInstance(match[3]);
  // The empty path has no text here, so that no two texts mean the same VM.
  if (instance === null || (match[3] !== undefined && instance.length === 0)) return null;
  return { runId, scope: match[2] as string, instance, generation: Number(match[4]) };
}
