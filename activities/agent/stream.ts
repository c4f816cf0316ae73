/**
 * Reads the stream of an agent while it works, and records it as events. A worker that takes over an attempt reads the
 * stream from its beginning again. The same lines have the same event ids, so no event is recorded twice.
 */
import type { AgentProvider } from '../../agents/provider.ts';
import { createLineReader, type StreamLine } from '../../agents/lines.ts';
import { type EndCheck, STREAM_LIMITS } from '../../agents/stream.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { Exec } from '../ports/sandbox.ts';
import {
  eventBodyOf,
  hasEvent,
  redactName,
  type RedactedOutcome,
  redactOutcome,
  redactAndCut,
  type TellOptions,
  type ToldSaying,
} from './shared/sayings.ts';

/** `execKey` is the key of the attempt. */
export interface AgentStreamOptions extends TellOptions {
  readonly runId: string;
  /** The key of the command that writes the stream. */
  readonly commandKey: string;
  readonly fence: number;
  readonly exec: Exec;
  readonly provider: AgentProvider;
  readonly events: EventLog;
  readonly now: () => number;
  /** Called when tool calls have ended, once for each piece of the stream. */
  readonly toolEnded: (end: ToolEnd) => Promise<void>;
  /** Called when the stream has named its session. */
  readonly onSession: (sessionId: string) => void;
  /** Called after a usage event is stored, with the id of the event. */
  readonly usageTold: (eventId: string) => Promise<void>;
  /** Called if the model has answered. */
  readonly answered: () => void;
  /**
   * Called for each piece of the stream after its events are stored. `hasEnded` is true if the agent has ended its
   * turn.
   */
  readonly turnEnded: (hasEnded: boolean) => void;
  /** Called if the stream reports a rejected login, possibly several times. */
  readonly loginRefused: (words: string) => void;
}

export interface ToolEnd {
  readonly sessionId: string | null;
  /** Checks whether the session contains the end of the call; null: the session already contains it. */
  readonly isIn: EndCheck | null;
}

/**
 * Resolves when the stream has ended and its events are stored.
 * @throws errors of the sandbox and the store, and the reason of `signal`
 */
export async function followAgent(options: AgentStreamOptions, signal: AbortSignal): Promise<RedactedOutcome> {
  const lines = createLineReader(STREAM_LIMITS.lineBytes);
  const stream = options.provider.stream();
  let told = 0;
  let session: string | null = null;
  const reportSession = (): void => {
    if (session !== null) return;
    session = stream.outcome().sessionId;
    if (session !== null) options.onSession(session);
  };
  const reportLines = async (read: readonly StreamLine[]): Promise<void> => {
    let toolEnd: ToolEnd | null = null;
    const events = read.flatMap(({ offset, text }) => {
      const sayings = text === null ? [] : stream.line(text);
      reportSession();
      const { hasEnded } = stream.outcome();
      for (const saying of sayings)
        if (saying.kind === 'login-refused')
          options.loginRefused(redactAndCut(options.redactor, saying.words, STREAM_LIMITS.textCharacters));
      const end = sayings.find((saying) => saying.kind === 'tool-ended');
      if (end !== undefined)
        toolEnd = { sessionId: redactName(options.redactor, stream.outcome().sessionId), isIn: end.isIn ?? null };
      return sayings.flatMap((saying, index) =>
        hasEvent(saying) ? [eventOf(options, saying, { offset, index, hasEnded })] : [],
      );
    });
    const room = Math.max(0, STREAM_LIMITS.events - told);
    told += events.length;
    const kept = events.slice(0, room);
    if (kept.length > 0)
      await options.events.append(options.runId, kept, { execKey: options.execKey, fence: options.fence });
    if (events.length > 0) options.answered();
    const usage = kept.findLast(({ body }) => body.type === 'agent-usage');
    if (usage !== undefined) await options.usageTold(usage.id);
    if (toolEnd !== null) await options.toolEnded(toolEnd);
    options.turnEnded(stream.outcome().hasEnded);
  };
  for await (const chunk of options.exec.output('stdout', 0, signal)) await reportLines(lines.push(chunk));
  signal.throwIfAborted();
  await reportLines(lines.end());
  return redactOutcome(stream.outcome(), options.redactor);
}

interface Place {
  /** The offset of the line. */
  readonly offset: number;
  /** The position of the saying within the line. */
  readonly index: number;
  /** True if the line ends the agent's turn. */
  readonly hasEnded: boolean;
}

function eventOf(options: AgentStreamOptions, saying: ToldSaying, { offset, index, hasEnded }: Place): NewRunEvent {
  return {
    id: EVENT_ID.agent(options.commandKey, offset, index),
    atMs: options.now(),
    body: eventBodyOf(options, saying, hasEnded),
  };
}
