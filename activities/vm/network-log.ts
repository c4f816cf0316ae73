/**
 * Copies the notices of a VM's door into the event log, from this worker's position on. Another worker reads the
 * notices from their beginning. The same notices give events with the same ids, so no event is recorded twice. The
 * keeper's files contain the notices and outlive the keeper, so no notice is lost with a worker or a VM.
 */
import { type DoorNotice, readNotices, flushCounts, type ToldNotice } from '../../domain/run/door-notice.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import { formatVmKey } from '../../domain/run/vm-key.ts';
import { REDACTED, type Redactor } from '../../domain/security/redactor.ts';
import type { ActivityDeps } from '../deps.ts';
import type { DoorListener, NoticeCursor } from './notice-cursor.ts';
import type { SandboxBackend, VmKey } from '../ports/sandbox.ts';
import type { ScopeRequest } from '../calls/requests.ts';

/** The interval at which the notices of a running stage are read. */
const LOOK_INTERVAL_MS = 500;

interface NetworkContext {
  readonly deps: Pick<ActivityDeps, 'events' | 'now' | 'vms'>;
  readonly request: Pick<ScopeRequest, 'runId' | 'scope'>;
  readonly backend: SandboxBackend;
  readonly vmKey: VmKey;
}

export interface NetworkFollower {
  /** @returns a function that removes the listener */
  listen(listener: DoorListener): () => void;
  /** Resolves when all notices up to now are stored. */
  catchUp(): Promise<void>;
  /** Resolves when the running write has ended; another reader stores later notices. */
  stop(): Promise<void>;
}

/** Follows the door of the VM while a stage runs in it. */
export function followNetwork(context: NetworkContext, redactor: Redactor): NetworkFollower {
  if (!hasDoor(context)) {
    const nothing = async (): Promise<void> => undefined;
    return { catchUp: nothing, stop: nothing, listen: () => () => undefined };
  }
  const cursor = context.deps.vms.notices(context.vmKey);
  cursor.redactors.add(redactor);
  let isStopped = false;
  let looking: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;
  const scheduleRead = (): void => {
    timer = setTimeout(() => {
      // A failed read is repeated by the next one; the read at the stage's end reports the error.
      looking = advance(context, cursor, false)
        .catch(() => undefined)
        .then(() => (isStopped ? undefined : scheduleRead()));
    }, LOOK_INTERVAL_MS);
  };
  scheduleRead();
  return {
    listen(listener) {
      cursor.listeners.add(listener);
      return () => void cursor.listeners.delete(listener);
    },
    catchUp: () => advance(context, cursor, true),
    async stop() {
      isStopped = true;
      clearTimeout(timer);
      await looking;
    },
  };
}

/** Stores all notices of the door of a VM that has ended or is about to end. */
export async function recordNetwork(context: NetworkContext): Promise<void> {
  if (hasDoor(context)) await advance(context, context.deps.vms.notices(context.vmKey), true);
}

const decode = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

function hasDoor({ request }: NetworkContext): boolean {
  return request.scope.sandbox.egress !== undefined;
}

function advance(context: NetworkContext, cursor: NoticeCursor, isAll: boolean): Promise<void> {
  const { backend, vmKey } = context;
  return cursor.exclusively(async () => {
    for (;;) {
      const bytes = await backend.notices(vmKey, cursor.read.offset);
      const { read, told } = readNotices(cursor.read, bytes, decode);
      if (read.offset === cursor.read.offset) break;
      await append(context, cursor, told);
      cursor.read = read;
    }
    if (!isAll) return;
    const { read, told } = flushCounts(cursor.read);
    await append(context, cursor, told);
    cursor.read = read;
  });
}

async function append(context: NetworkContext, cursor: NoticeCursor, told: readonly ToldNotice[]): Promise<void> {
  if (told.length === 0) return;
  for (const notice of told) for (const listener of cursor.listeners) listener(notice);
  const { deps, request, vmKey } = context;
  const name = formatVmKey(vmKey);
  const events = told.map(({ offset, atMs, notice }): NewRunEvent => ({
    id: EVENT_ID.network(name, notice.kind === 'more' ? 'more' : 'notice', offset),
    atMs: atMs ?? deps.now(),
    body: {
      type: 'network',
      vmKey: name,
      scope: vmKey.scope,
      generation: vmKey.generation,
      offset,
      ...redactNotice(notice, cursor.redactors),
    },
  }));
  await deps.events.append(request.runId, events);
}

/**
 * Redacts a notice, because a guest may request a host name that contains a secret. If no stage of this worker was in
 * the VM, the secrets are unknown, and every name is redacted.
 */
function redactNotice(notice: DoorNotice, redactors: ReadonlySet<Redactor>): DoorNotice {
  if (notice.kind !== 'refused' && notice.kind !== 'closed') return notice;
  const clean = (text: string): string =>
    redactors.size === 0 ? REDACTED : [...redactors].reduce((rest, redactor) => redactor.text(rest), text);
  const { host, service } = notice;
  const target = {
    ...(host === undefined ? {} : { host: clean(host) }),
    ...(service === undefined ? {} : { service: clean(service) }),
  };
  const isSame = target.host === host && target.service === service;
  if (notice.kind === 'closed') return { ...notice, ...target };
  // The reason contains the name as the keeper read it, in lower case.
  return { ...notice, ...target, reason: isSame ? clean(notice.reason) : REDACTED };
}
