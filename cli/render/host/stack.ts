import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { formatAge } from '../../../domain/units/duration.ts';
import type { StackInfo } from '../../../client/embedded/stack.ts';

/** The processes of the embedded stack and where they answer. */
export function renderStack(
  stack: StackInfo,
  options: {
    readonly nowMs: number;
    readonly stateDir: string;
    readonly allowedMounts: readonly string[];
    readonly apiSocket: string | null;
  },
): string[] {
  return [
    `Temporal    ${stack.address} (namespace ${stack.namespace})`,
    `UI          ${stack.uiUrl}`,
    ...(options.apiSocket === null ? [] : [`API         ${sanitizeLine(options.apiSocket)}`]),
    `processes   supervisor ${stack.supervisorPid}, server ${stack.serverPid}, worker ${stack.workerPid}; started ${formatAge(options.nowMs - stack.startedAtMs)}`,
    `host        ${stack.hostId}`,
    `state       ${options.stateDir}`,
    ...(options.allowedMounts.length === 0
      ? []
      : [`mounts      runs may mount from ${options.allowedMounts.map(sanitizeLine).join(', ')}`]),
  ];
}
