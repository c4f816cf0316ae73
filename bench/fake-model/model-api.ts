/** What the fake model says, whatever API it is asked by. */
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

/** What the model does when it is asked. */
export type ModelStep =
  /** Where `everyMs` is given, a word at a time, so far apart. */
  | { readonly say: string; readonly everyMs?: number }
  /**
   * In a shell of the agent, as a call of the tool that its command line offers for that; `saying` comes before it, at the pace of
   * `everyMs`.
   */
  | { readonly run: string; readonly saying?: string; readonly everyMs?: number }
  /** Of another tool that its command line offers, by the name that it has there. */
  | { readonly call: string; readonly input: unknown }
  /** The value that a schema asks for, in the way that the command line wants it. */
  | { readonly answer: unknown }
  /** The call fails, as an API says it. */
  | { readonly status: number; readonly message: string }
  /** The answer begins and the connection ends. */
  | { readonly cut: string };

export interface Asked {
  /** From 0: answers of the model that the conversation has already. */
  readonly turn: number;
  /** Everything that the model is sent, as JSON. */
  readonly conversation: string;
}

/** How one API says a step. */
export type SayStep = (response: ServerResponse, step: ModelStep, stream: StepContext) => Promise<void>;

/** An error names what is offered instead. */
export function offeredTool(name: string, { tools }: StepContext): string {
  if (!tools.includes(name)) throw new Error(`the tool ${name} is not offered: ${tools.join(', ')}`);
  return name;
}

export interface StepContext {
  readonly turn: number;
  readonly model: string;
  /** Names of the tools that it may call. */
  readonly tools: readonly string[];
}

/** One API of models. */
export interface ModelApi {
  read(body: Readonly<Record<string, unknown>>): { readonly asked: Asked; readonly context: StepContext };
  readonly say: SayStep;
}

/** In the pieces in which a stream brings it: whole, or with `everyMs` a word at a time, after that pause each. */
export async function* piecesOf(text: string, everyMs: number | undefined): AsyncGenerator<string> {
  if (everyMs === undefined) return yield text;
  for (const piece of text.match(/\S+\s*|\s+/g) ?? []) {
    await sleep(everyMs);
    yield piece;
  }
}

/** One event of a stream of server-sent events. */
export function sendEvent(response: ServerResponse, event: Readonly<Record<string, unknown>> & { type: string }): void {
  response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
}

export function beginStream(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
}
