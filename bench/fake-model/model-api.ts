/** The answers of the fake model, independent of the API of the request. */
import { setTimeout as sleep } from 'node:timers/promises';

/** One step of the script: the model speaks, or rejects the call. */
export type ModelStep = SpokenStep | Refusal;

/** An answer, or its beginning. */
export type SpokenStep =
  /** With `everyMs`, the model sends one word at a time, at this interval. */
  | { readonly say: string; readonly everyMs?: number }
  /**
   * In a shell of the agent, as a call of the tool that its command line offers for that; `saying` comes before it, at the pace of
   * `everyMs`.
   */
  | { readonly run: string; readonly saying?: string; readonly everyMs?: number }
  /**
   * A call of another tool that the command line offers. `mcp__SERVER__TOOL` names a tool of an MCP server, in any API.
   */
  | { readonly call: string; readonly input: unknown }
  /** The value that a schema asks for, in the way that the command line wants it. */
  | { readonly answer: unknown }
  /** The answer begins and the connection ends. */
  | { readonly cut: string };

/** The call fails, as an API says it. */
export interface Refusal {
  readonly status: number;
  readonly message: string;
}

export interface Asked {
  /** From 0: answers of the model that the conversation has already. */
  readonly turn: number;
  /** Everything that the model is sent, as JSON. */
  readonly conversation: string;
}

export interface OfferedTool {
  readonly name: string;
  /** Where the API groups tools. */
  readonly namespace?: string;
}

export interface StepContext {
  readonly turn: number;
  readonly model: string;
  /** Those that the model may call, by their whole names. */
  readonly tools: ReadonlyMap<string, OfferedTool>;
}

/** A JSON object of a request. */
export type Fields = Readonly<Record<string, unknown>>;

/** One event of a stream of server-sent events. */
export type StreamEvent = Fields & { readonly type: string };

/** One API of models. */
export interface ModelApi {
  /** The field of a request that contains the conversation so far. */
  readonly conversation: string;
  /** Answers of the model in it. */
  turnOf(conversation: readonly Fields[]): number;
  /** The body of a refusal. */
  errorOf(refusal: Refusal): Fields;
  /** Returns the events of a step; for a `cut` step, only the events before the cut. */
  speak(step: SpokenStep, context: StepContext): AsyncIterable<StreamEvent>;
}

export function readRequest(
  { conversation, turnOf }: ModelApi,
  body: Fields,
): { readonly asked: Asked; readonly context: StepContext } {
  const said = listOf(body[conversation]);
  const turn = turnOf(said);
  return {
    asked: { turn, conversation: JSON.stringify(said) },
    context: { turn, model: String(body['model']), tools: toolsOf(listOf(body['tools'])) },
  };
}

function toolsOf(offered: readonly Fields[]): ReadonlyMap<string, OfferedTool> {
  return new Map(
    offered.flatMap((tool): readonly [string, OfferedTool][] => {
      const name = String(tool['name']);
      if (tool['type'] !== 'namespace') return [[name, { name }]];
      return listOf(tool['tools']).map((inner) => [
        `${name}__${String(inner['name'])}`,
        { name: String(inner['name']), namespace: name },
      ]);
    }),
  );
}

function listOf(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? (value as readonly Fields[]) : [];
}

/** An error names what is offered instead. */
export function findOfferedTool(name: string, { tools }: StepContext): OfferedTool {
  const tool = tools.get(name);
  if (tool === undefined) throw new Error(`the tool ${name} is not offered: ${[...tools.keys()].join(', ')}`);
  return tool;
}

/** In the pieces in which a stream brings it: whole, or with `everyMs` a word at a time, after that pause each. */
export async function* piecesOf(text: string, everyMs: number | undefined): AsyncGenerator<string> {
  if (everyMs === undefined) return yield text;
  for (const piece of text.match(/\S+\s*|\s+/g) ?? []) {
    await sleep(everyMs);
    yield piece;
  }
}
