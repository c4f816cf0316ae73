/** The identity of a VM as text. */
import { type InstancePath, instanceText, parseInstance, PLAN_ID } from './instance.ts';
import { escapeRunId, unescapeRunId } from './run-id.ts';

export interface VmIdentity {
  readonly runId: string;
  readonly scope: string;
  /** Of the plan that declares the scope: items of a part do not share a VM. */
  readonly instance: InstancePath;
  readonly generation: number;
}

const VM_KEY = new RegExp(`^([^/]+)/(${PLAN_ID})(?:/([A-Za-z0-9._~-]+))?/(\\d{1,9})$`);

/**
 * `run/scope/generation`, with the instance before the generation where it is not the run itself. The run's id is escaped, so
 * that it holds no slash and may stand on a command line.
 */
export function vmKeyText({ runId, scope, instance, generation }: VmIdentity): string {
  return `${escapeRunId(runId)}/${scope}/${instance.length === 0 ? '' : `${instanceText(instance)}/`}${generation}`;
}

/** Null for a text that no key has. */
export function parseVmKey(text: string): VmIdentity | null {
  const match = VM_KEY.exec(text);
  const runId = match === null ? null : unescapeRunId(match[1] as string);
  if (match === null || runId === null) return null;
  const instance = match[3] === undefined ? [] : parseInstance(match[3]);
  // The empty path has no text of its own here: no two texts are the same VM.
  if (instance === null || (match[3] !== undefined && instance.length === 0)) return null;
  return { runId, scope: match[2] as string, instance, generation: Number(match[4]) };
}
