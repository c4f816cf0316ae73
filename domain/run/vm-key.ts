/** The identity of a VM as text. */
import { escapeRunId, unescapeRunId } from './run-id.ts';

export interface VmIdentity {
  readonly runId: string;
  readonly scope: string;
  readonly generation: number;
}

const VM_KEY = /^([^/]+)\/([A-Za-z0-9_][A-Za-z0-9._-]{0,63})\/(\d{1,9})$/;

/** `run/scope/generation`; the run's id is escaped, so that it holds no slash and may stand on a command line. */
export function vmKeyText(key: VmIdentity): string {
  return `${escapeRunId(key.runId)}/${key.scope}/${key.generation}`;
}

/** Null for a text that no key has. */
export function parseVmKey(text: string): VmIdentity | null {
  const match = VM_KEY.exec(text);
  const runId = match === null ? null : unescapeRunId(match[1] as string);
  return match === null || runId === null ? null : { runId, scope: match[2] as string, generation: Number(match[3]) };
}
