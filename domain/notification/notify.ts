/**
 * The notifications of a deployment, compiled from `notify`, `late_after` and `waiting_after` of its spec. They are
 * JSON-safe, are stored with a version, and contain names of secrets instead of values.
 */

/** The states that receivers can ask for. */
export const NOTIFY_STATES = ['failed', 'recovered', 'asking', 'late', 'waiting_long', 'budget'] as const;
export type NotifyState = (typeof NOTIFY_STATES)[number];

export interface Notify {
  readonly receivers: readonly Receiver[];
  /** A run that has not ended so long after its start is late. Null: no run is late. */
  readonly lateAfterMs: number | null;
  /** A question that is open for so long is reported as `waiting_long`. */
  readonly waitingAfterMs: number;
}

export interface Receiver {
  /** Unique in its spec. */
  readonly name: string;
  /** Not empty. */
  readonly states: readonly NotifyState[];
  /** The person whose links for answers its messages about questions contain. Null: they contain no link. */
  readonly as: string | null;
  readonly target: NotifyTarget;
}

/** `secret` and `token` name secrets of the deployment. */
export type NotifyTarget =
  /** A POST of JSON with a signature of Standard Webhooks. */
  | { readonly kind: 'webhook'; readonly url: string; readonly secret: string }
  /** The secret is the URL of an incoming webhook of Slack. */
  | { readonly kind: 'slack'; readonly secret: string }
  /** A POST of a CloudEvent. Null: without a login. An absent mode is `structured`. */
  | {
      readonly kind: 'cloudevents';
      readonly url: string;
      readonly token: string | null;
      readonly mode?: CloudEventsMode;
    };

/**
 * The modes of CloudEvents over HTTP. `structured`: the event is the body. `binary`: its data is the body, and its
 * attributes are headers. `batched`: the body is a list with the event, for receivers that take only lists.
 */
export const CLOUDEVENTS_MODES = ['structured', 'binary', 'batched'] as const;
export type CloudEventsMode = (typeof CLOUDEVENTS_MODES)[number];

export const NOTIFY_DEFAULTS = { lateAfterMs: null, waitingAfterMs: 60 * 60_000 } as const;
export const CLOUDEVENTS_DEFAULTS = { mode: 'structured' } as const satisfies { readonly mode: CloudEventsMode };

/** The notifications of a spec without `notify`. */
export const NO_NOTIFY: Notify = { receivers: [], ...NOTIFY_DEFAULTS };

export const NOTIFY_LIMITS = {
  /** Receivers of one spec. */
  receivers: 16,
  /** UTF-16 code units of a URL. */
  urlCharacters: 2_048,
  /** Notifications about questions of one run, for each receiver. */
  questions: 100,
  /** Names of a question in a message. */
  names: 32,
  /** UTF-16 code units of a text of a run in a message. */
  textCharacters: 1_024,
} as const;

/** The names of secrets that the receivers need, sorted. */
export function listNotifySecrets({ receivers }: Notify): readonly string[] {
  const names = receivers.flatMap(({ target }) =>
    target.kind === 'cloudevents' ? (target.token ?? []) : target.secret,
  );
  return [...new Set(names)].toSorted();
}

/**
 * Returns the problem of a receiver's URL; null: it has the form of one. The sender parses it, and refuses addresses.
 */
export function findUrlProblem(text: string): string | null {
  if (text.length > NOTIFY_LIMITS.urlCharacters) return `it has more than ${NOTIFY_LIMITS.urlCharacters} characters`;
  // A URL drops some control characters silently, and others would reach a log.
  if (!/^[\x21-\x7e]+$/.test(text)) return 'it has a character that URLs encode as `%…`';
  const [, authority] = /^https?:\/\/([^/?#\\]+)/i.exec(text) ?? [];
  if (authority === undefined) return 'it is not an http or https URL with a host';
  return authority.includes('@') ? 'it contains a login, which would be readable in the spec' : null;
}
