/** The activity of the doors of a run's VMs, folded from their events. */
import { type DoorCounts, formatTarget } from '../domain/run/door-notice.ts';
import type { RunEventBody } from '../domain/run/event.ts';

type NetworkBody = Extract<RunEventBody, { type: 'network' }>;

/** The network activity of one VM. */
export interface NetworkView {
  /** Ended connections, refusals and bytes that have an event of their own. */
  readonly told: DoorCounts;
  /** Connections, refusals and bytes that an event only counted. */
  readonly counted: DoorCounts;
  /** The first `SHOWN_REFUSALS` refusals that differ. */
  readonly refusals: readonly RefusalView[];
  /** The host no longer keeps notices of these kinds, or its disk was full: the counts are too low. */
  readonly isIncomplete: boolean;
}

export interface RefusalView {
  /** `example.com:443`. */
  readonly target: string;
  readonly cause: string;
  /** The reason of the last refusal. */
  readonly reason: string;
  readonly count: number;
  /** Milliseconds since the epoch. */
  readonly firstAtMs: number;
  readonly lastAtMs: number;
}

/** The limit of refusals in the view of a VM; the log contains all of them. */
export const SHOWN_REFUSALS = 8;

const NONE: DoorCounts = { refused: 0, closed: 0, sentBytes: 0, receivedBytes: 0 };
const NO_NETWORK: NetworkView = { told: NONE, counted: NONE, refusals: [], isIncomplete: false };

export function withNotice(view: NetworkView = NO_NETWORK, body: NetworkBody, atMs: number): NetworkView {
  const { told, counted } = view;
  switch (body.kind) {
    case 'refused':
      return {
        ...view,
        told: { ...told, refused: told.refused + 1 },
        refusals: withRefusal(view.refusals, body, atMs),
      };
    case 'closed':
      return {
        ...view,
        told: {
          refused: told.refused,
          closed: told.closed + 1,
          sentBytes: told.sentBytes + body.sentBytes,
          receivedBytes: told.receivedBytes + body.receivedBytes,
        },
      };
    case 'more': {
      // The event counts all notices before it. An event of another worker may arrive late.
      const { refused, closed, sentBytes, receivedBytes } = body;
      const isNewer = refused + closed > counted.refused + counted.closed;
      return isNewer ? { ...view, counted: { refused, closed, sentBytes, receivedBytes } } : view;
    }
    case 'dropped':
    case 'unwritten':
      return { ...view, isIncomplete: true };
    // A kind of a later build.
    default:
      return view;
  }
}

function withRefusal(
  refusals: readonly RefusalView[],
  body: Extract<NetworkBody, { kind: 'refused' }>,
  atMs: number,
): readonly RefusalView[] {
  const { cause, reason } = body;
  const target = formatTarget(body);
  const index = refusals.findIndex((known) => known.target === target);
  const known = refusals[index];
  if (known !== undefined)
    return refusals.with(index, { ...known, cause, reason, count: known.count + 1, lastAtMs: atMs });
  if (refusals.length >= SHOWN_REFUSALS) return refusals;
  return [...refusals, { target, cause, reason, count: 1, firstAtMs: atMs, lastAtMs: atMs }];
}

export interface NetworkTotals {
  readonly connections: number;
  readonly refused: number;
  readonly sentBytes: number;
  readonly receivedBytes: number;
  readonly refusals: readonly RefusalView[];
  readonly isIncomplete: boolean;
}

/** Adds up several VMs. Null: no VM has reported anything. */
export function sumNetwork(views: readonly (NetworkView | undefined)[]): NetworkTotals | null {
  const seen = views.filter((view) => view !== undefined);
  if (seen.length === 0) return null;
  const sum = (name: keyof DoorCounts): number =>
    seen.reduce((total, { told, counted }) => total + told[name] + counted[name], 0);
  return {
    connections: sum('closed'),
    refused: sum('refused'),
    sentBytes: sum('sentBytes'),
    receivedBytes: sum('receivedBytes'),
    refusals: mergeRefusals(seen.flatMap(({ refusals }) => refusals)),
    isIncomplete: seen.some(({ isIncomplete }) => isIncomplete),
  };
}

function mergeRefusals(refusals: readonly RefusalView[]): readonly RefusalView[] {
  const byTarget = new Map<string, RefusalView>();
  for (const refusal of refusals) {
    const known = byTarget.get(refusal.target);
    if (known === undefined && byTarget.size >= SHOWN_REFUSALS) continue;
    byTarget.set(refusal.target, {
      ...refusal,
      count: refusal.count + (known?.count ?? 0),
      firstAtMs: Math.min(refusal.firstAtMs, known?.firstAtMs ?? refusal.firstAtMs),
      lastAtMs: Math.max(refusal.lastAtMs, known?.lastAtMs ?? refusal.lastAtMs),
    });
  }
  return [...byTarget.values()];
}
