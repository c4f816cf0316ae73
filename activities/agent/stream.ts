/**
 * Reads what an agent prints while it works, and tells it as events. A try that takes an attempt over reads the stream from its
 * beginning again: the same lines make the same ids, so nothing is told twice.
 */
import type { AgentProvider } from '../../agents/provider.ts';
import { cut } from '../../agents/fields.ts';
import { createLineReader, type StreamLine } from '../../agents/lines.ts';
import {
  type AgentOutcome,
  type AgentSaying,
  type AgentUsage,
  type KnowsOfEnd,
  STREAM_LIMITS,
} from '../../agents/stream.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent, RunEventBody } from '../../domain/run/event.ts';
import { utf8Tail } from '../../domain/units/utf8.ts';
import type { RedactedData } from '../../domain/plan/plan.ts';
import type { Redactor } from '../../domain/security/redactor.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { Exec } from '../ports/sandbox.ts';
import { redactWhole } from '../attempt/redacted-data.ts';

export interface AgentStreamOptions {
  readonly runId: string;
  readonly stage: string;
  /** Of the attempt: what the events are of. */
  readonly execKey: string;
  /** Of the command whose stream it is. */
  readonly commandKey: string;
  readonly fence: number;
  readonly exec: Exec;
  readonly provider: AgentProvider;
  readonly events: EventLog;
  readonly redactor: Redactor;
  readonly now: () => number;
  /** Called where a call of a tool is over, once for a piece of the stream. */
  readonly toolEnded: (end: ToolEnd) => Promise<void>;
  /** Once the stream has named its session. */
  readonly onSession: (sessionId: string) => void;
  /** What is told for what the stream says that its command has used so far; `isLast`: with it the agent has ended its turn. */
  readonly used: (usage: AgentUsage, isLast: boolean) => AgentUsage;
  /** Called where that was told, with the id of its event. */
  readonly usageTold: (eventId: string) => Promise<void>;
  /** Called if the model has answered something. */
  readonly answered: () => void;
  /** Called for each piece of the stream, when its events are stored: whether the agent has ended its turn. */
  readonly turnEnded: (hasEnded: boolean) => void;
  /** Called where it says that, possibly several times. */
  readonly loginRefused: (words: string) => void;
}

export interface ToolEnd {
  readonly sessionId: string | null;
  /** Null: the session knows of it. */
  readonly isIn: KnowsOfEnd | null;
}

/** Settles when the stream has ended and what it said is stored. @throws what the sandbox or the store throws, and the reason of `signal` */
export async function followAgent(options: AgentStreamOptions, signal: AbortSignal): Promise<FollowedOutcome> {
  const lines = createLineReader(STREAM_LIMITS.lineBytes);
  const stream = options.provider.stream();
  let told = 0;
  let session: string | null = null;
  const tellSession = (): void => {
    if (session !== null) return;
    session = stream.outcome().sessionId;
    if (session !== null) options.onSession(session);
  };
  const tell = async (read: readonly StreamLine[]): Promise<void> => {
    let toolEnd: ToolEnd | null = null;
    const events = read.flatMap(({ offset, text }) => {
      const sayings = text === null ? [] : stream.line(text);
      tellSession();
      const { hasEnded } = stream.outcome();
      for (const saying of sayings)
        if (saying.kind === 'login-refused')
          options.loginRefused(shortly(options.redactor, saying.words, STREAM_LIMITS.textCharacters));
      const end = sayings.find((saying) => saying.kind === 'tool-ended');
      if (end !== undefined)
        toolEnd = { sessionId: redactedName(options.redactor, stream.outcome().sessionId), isIn: end.isIn ?? null };
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
  for await (const chunk of options.exec.output('stdout', 0, signal)) await tell(lines.push(chunk));
  signal.throwIfAborted();
  await tell(lines.end());
  return redactedOutcome(stream.outcome(), options.redactor);
}

/** What has an event. */
type Told = Exclude<AgentSaying, { readonly kind: 'tool-ended' | 'login-refused' }>;

function hasEvent(saying: AgentSaying): saying is Told {
  return saying.kind !== 'tool-ended' && saying.kind !== 'login-refused';
}

interface Place {
  /** Of its line. */
  readonly offset: number;
  /** Within the line. */
  readonly index: number;
  /** The line ends the agent's turn. */
  readonly hasEnded: boolean;
}

function eventOf(options: AgentStreamOptions, saying: Told, { offset, index, hasEnded }: Place): NewRunEvent {
  return {
    id: EVENT_ID.agent(options.commandKey, offset, index),
    atMs: options.now(),
    body: bodyOf(options, saying, hasEnded),
  };
}

function bodyOf({ stage, execKey, redactor, used }: AgentStreamOptions, saying: Told, hasEnded: boolean): RunEventBody {
  const { textCharacters, nameCharacters, detailCharacters, toolOutputBytes } = STREAM_LIMITS;
  switch (saying.kind) {
    case 'text':
      return { type: 'agent-text', stage, execKey, text: shortly(redactor, saying.text, textCharacters) };
    case 'tool': {
      const { failed } = saying;
      const tool = shortly(redactor, saying.tool, nameCharacters);
      return {
        type: 'agent-tool',
        stage,
        execKey,
        tool,
        detail: shortly(redactor, saying.detail, detailCharacters),
        failed,
      };
    }
    case 'tool-output': {
      const tool = shortly(redactor, saying.tool, nameCharacters);
      return {
        type: 'agent-tool-output',
        stage,
        execKey,
        tool,
        ...utf8Tail(redactor.text(saying.text), toolOutputBytes),
      };
    }
    case 'usage':
      return { type: 'agent-usage', stage, execKey, ...used(saying.usage, hasEnded) };
  }
}

/** Redacted before it is cut: a part of a secret would not be found. */
function shortly(redactor: Redactor, text: string, most: number): string {
  return cut(redactor.text(text), most);
}

function redactedName(redactor: Redactor, text: string | null): string | null {
  return text === null ? null : shortly(redactor, text, STREAM_LIMITS.nameCharacters);
}

/** The outcome of an agent, without secrets. */
export interface FollowedOutcome extends AgentOutcome {
  /** The changes that redaction made in `text`; absent: no change. */
  readonly textRedacted?: RedactedData;
}

function redactedOutcome(outcome: AgentOutcome, redactor: Redactor): FollowedOutcome {
  const { textCharacters } = STREAM_LIMITS;
  const name = (text: string | null): string | null => redactedName(redactor, text);
  const { failure, text, unpricedModels } = outcome;
  const said = text === null ? null : redactWhole(text, redactor);
  return {
    ...outcome,
    ...(said === null || said.changes === null ? {} : { textRedacted: said.changes }),
    model: name(outcome.model),
    sessionId: name(outcome.sessionId),
    text: said?.text ?? null,
    failure: failure === null ? null : { ...failure, message: shortly(redactor, failure.message, textCharacters) },
    ...(unpricedModels === undefined ? {} : { unpricedModels: unpricedModels.map((model) => name(model)!) }),
  };
}
