import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { formatAge } from '../../../domain/units/duration.ts';
import type { AllowedSources } from '../../../client/embedded/allowed-sources.ts';
import type { ListenState } from '../../../client/embedded/control.ts';
import type { StackInfo } from '../../../client/embedded/stack.ts';

/** The processes of the embedded stack and where they answer. */
export function renderStack(
  stack: StackInfo,
  options: {
    readonly nowMs: number;
    readonly stateDir: string;
    readonly allowedMounts: readonly string[];
    readonly allowedSources: AllowedSources;
    readonly apiSocket: string | null;
    /** Null: the stack does not answer. */
    readonly listen: ListenState | null;
  },
): string[] {
  return [
    `Temporal    ${stack.address} (namespace ${stack.namespace})`,
    `UI          ${stack.uiUrl}`,
    ...(options.apiSocket === null ? [] : [`API         ${sanitizeLine(options.apiSocket)}`]),
    ...renderListeners(options.listen),
    `processes   supervisor ${stack.supervisorPid}, server ${stack.serverPid}, worker ${stack.workerPid}; started ${formatAge(options.nowMs - stack.startedAtMs)}`,
    `host        ${stack.hostId}`,
    `state       ${options.stateDir}`,
    ...(options.allowedMounts.length === 0
      ? []
      : [`mounts      runs may mount from ${options.allowedMounts.map(sanitizeLine).join(', ')}`]),
    ...renderSources(options.allowedSources),
  ];
}

function renderSources({ watch, outbox, queue }: AllowedSources): string[] {
  return [
    ...(watch.length === 0 ? [] : [`folders     triggers may watch ${watch.map(sanitizeLine).join(', ')}`]),
    ...(outbox.length === 0 ? [] : [`outboxes    triggers may read from ${outbox.map(sanitizeLine).join(', ')}`]),
    ...(queue.length === 0 ? [] : [`queues      triggers may read from ${queue.map(sanitizeLine).join(', ')}`]),
  ];
}

function renderListeners(listen: ListenState | null): string[] {
  if (listen === null) return [];
  const { problem, publicUrl, listeners } = listen;
  if (problem !== null) return [`API on TCP  none: ${sanitizeLine(problem)}`];
  const lines = listeners.map(({ url, problem: why }) => (why === null ? url : `${url} does not listen: ${why}`));
  if (publicUrl !== null) lines.push(`clients know it as ${publicUrl}`);
  return lines.map((line, index) => `${index === 0 ? 'API on TCP' : '          '}  ${sanitizeLine(line)}`);
}

/** Tells how long a stack that is not stopped stays up. */
export function describeStay(listen: ListenState | null): string {
  return listen !== null && listen.listeners.length > 0
    ? 'It stays up, because the API listens on TCP. Stop it now: voidbox down'
    : 'It stops automatically after 10 minutes without open runs, sessions and Temporal Schedules that have a next time. Stop it now: voidbox down';
}

/** Tells that a stack which has stopped listens again after its next start. */
export function renderStoppedListeners(listen: ListenState | null): string[] {
  const urls = (listen?.listeners ?? []).filter(({ problem }) => problem === null).map(({ url }) => sanitizeLine(url));
  if (urls.length === 0) return [];
  return [
    `The API no longer listens on ${urls.join(', ')}. It listens again when the stack starts, unless you end that: voidbox up --no-listen`,
  ];
}
