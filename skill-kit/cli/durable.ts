/** `--durable`: sessions that live on a Temporal server. Nothing of them is kept here but their id, which the client has. */
import type { DurableReply, DurableSessions } from '../../domain/step-machine/durable-port.ts';
import { openDurable } from '../durable/find-voidbox.ts';
import { handshakeOf } from './flags.ts';
import { UsageError } from './io.ts';
import { failureOf, type Outcome, type SkillCall } from './skill-call.ts';
import { shorten } from '../../domain/units/quote.ts';

/** @throws {Error} with its remedy */
export async function startDurable(call: SkillCall): Promise<Outcome> {
  const { flags, inputs, subskill } = call;
  const { session } = flags.text;
  const params = await inputs.json('params');
  const sessions = await open(call);
  return outcomeOf(
    await sessions.start({
      handshake: handshakeOf(flags),
      ...(session === undefined || session === 'new' ? {} : { session }),
      ...(params === undefined ? {} : { params }),
      ...(subskill === undefined ? {} : { subskill }),
    }),
  );
}

/** Without a step and an output, shows the state of the session. @throws {Error} with its remedy */
export async function advanceDurable(call: SkillCall): Promise<Outcome> {
  const { flags, inputs } = call;
  const { step } = flags.text;
  const session = sessionOf(call, 'advance');
  const hasOutput = inputs.has('output');
  if (step === undefined && !hasOutput) return outcomeOf(await (await open(call)).advance(session));
  if (step === undefined) throw new Error('--step is required for advance');
  if (!hasOutput) throw new Error('--output is required for advance');
  const turn = turnOf(flags.text.turn);
  const output = await inputs.json('output');
  return outcomeOf(
    await (await open(call)).advance(session, { step, output, ...(turn === undefined ? {} : { turn }) }),
  );
}

/** Ends the session, which history keeps. @throws {Error} with its remedy */
export async function cleanupDurable(call: SkillCall): Promise<Outcome> {
  const ended = await (await open(call)).cancel(sessionOf(call, 'cleanup'));
  if (typeof ended === 'object') return outcomeOf(ended);
  return { stdout: '', failure: null };
}

function sessionOf({ flags: { text } }: SkillCall, command: string): string {
  if (text.session !== undefined && text.session !== 'new') return text.session;
  throw new UsageError(`${command} --durable needs --session <id>, the "session" that start printed.`);
}

function turnOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^[1-9]\d{0,8}$/.test(text))
    throw new UsageError(`--turn is "${shorten(text)}"; it must be the "turn" of the prompt that is answered.`);
  return Number(text);
}

async function open({ definition, io }: SkillCall): Promise<DurableSessions> {
  return await openDurable(definition, io.script, (line) => io.stderr(`==> ${line}\n`));
}

/** @throws {Error} for what is no answer */
function outcomeOf(reply: DurableReply): Outcome {
  if (reply.kind === 'refused') throw new Error(`${reply.message}\n  ${reply.remedy}`);
  const { session, result } = reply;
  const failure = failureOf(result);
  return { stdout: failure === null ? `${JSON.stringify({ session, ...result })}\n` : '', failure };
}
