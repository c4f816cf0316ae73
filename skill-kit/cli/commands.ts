/** From a command line to what it does. */
import type { ReferenceDefinition, ReferenceLoader, SkillDefinition } from '../../domain/step-machine/definition.ts';
import { createReferenceLoader, skillDirOf } from '../prompt/reference-loader.ts';
import { type Flags, parseFlags } from './flags.ts';
import { referenceHelp, skillHelp } from './help.ts';
import { Inputs } from './inputs.ts';
import { type CommandIo, messageOf, UsageError } from './io.ts';
import { advanceStored } from './session-advance.ts';
import { cleanupStored, startStored } from './session-start.ts';
import type { Outcome, SkillCall } from './skill-call.ts';
import { advanceStateless, startStateless } from './stateless.ts';
import { topicList, topicText } from './topics.ts';

const EXIT_ERROR = 1;
const EXIT_USAGE = 2;

type Command = 'start' | 'advance' | 'cleanup';

interface Route {
  readonly command: Command;
  readonly subskill: string | undefined;
  readonly flags: Flags;
}

/** @returns the exit code */
export async function runSkillCommand(definition: SkillDefinition, io: CommandIo, refsBase?: string): Promise<number> {
  return reported(io, async () => {
    const refs = lazyLoader(io, refsBase);
    const { topics } = definition;
    const [first, second] = io.argv;
    if (topics !== undefined && first === 'topics' && !isHelp(second)) return io.stdout(topicList(topics));
    if (topics !== undefined && first === 'topic' && !isHelp(second)) return io.stdout(topicText(topics, second, refs));
    const route = routeOf(definition, io.argv);
    if (route === null) return io.stderr(skillHelp(definition));
    const { flags, subskill } = route;
    for (const what of flags.ignored) io.stderr(`warning: ignoring ${what}\n`);
    const call: SkillCall = { definition, flags, inputs: new Inputs(flags, io), io, refs, subskill };
    const { stdout, failure } = await outcomeOf(route.command, call);
    io.stdout(stdout);
    if (failure !== null) throw new Error(failure);
  });
}

/** @returns the exit code */
export async function runReferenceCommand(
  { topics, ...reference }: ReferenceDefinition,
  io: CommandIo,
  base?: string,
): Promise<number> {
  return reported(io, async () => {
    const [first = 'topics', second] = io.argv;
    if (io.argv.some(isHelp)) return io.stderr(referenceHelp({ topics, ...reference }));
    if (first === 'topics') return io.stdout(topicList(topics));
    if (first === 'topic') return io.stdout(topicText(topics, second, lazyLoader(io, base)));
    throw new Error(`unknown command "${first}". There are: topics, topic <name>, mcp.`);
  });
}

async function outcomeOf(command: Command, call: SkillCall): Promise<Outcome> {
  const { session, turn } = call.flags.text;
  // A durable session has got them at its start, and answers to it need none.
  if (command === 'start' || (command === 'advance' && !isDurable(command, call))) call.io.enter?.(call.definition);
  if (isDurable(command, call)) return await durableOutcome(command, call);
  if (turn !== undefined) call.io.stderr('warning: ignoring --turn, which durable sessions have\n');
  switch (command) {
    case 'start':
      return session === undefined ? startStateless(call) : startStored(call);
    case 'advance':
      return session === undefined ? advanceStateless(call) : advanceStored(call, session);
    case 'cleanup':
      return cleanupStored(call);
  }
}

/** What finds Voidbox is loaded for those who ask for it. */
async function durableOutcome(command: Command, call: SkillCall): Promise<Outcome> {
  const { advanceDurable, cleanupDurable, startDurable } = await import('./durable.ts');
  switch (command) {
    case 'start':
      return await startDurable(call);
    case 'advance':
      return await advanceDurable(call);
    case 'cleanup':
      return await cleanupDurable(call);
  }
}

/** Ids of sessions in files are hexadecimal; those that are made for durable ones have dashes. */
function isDurable(command: Command, { flags }: SkillCall): boolean {
  return flags.durable || (command !== 'start' && flags.text.session?.includes('-') === true);
}

/** Null: nothing that can be run, so the help is shown. @throws {UsageError} for a sub-skill that is none */
function routeOf({ subskills = {} }: SkillDefinition, argv: readonly string[]): Route | null {
  const [first, ...rest] = argv;
  if (first === undefined) return null;
  const own = commandAt(argv);
  // Commands come before sub-skills of the same name, which --subskill reaches.
  const sub = own === null && Object.hasOwn(subskills, first) ? first : undefined;
  const found = sub === undefined ? own : rest.length === 0 ? { command: 'start' as const, args: [] } : commandAt(rest);
  if (found === null) return null;
  const flags = parseFlags(found.args);
  if (flags.help) return null;
  const subskill = flags.text.subskill ?? sub;
  if (subskill === undefined || Object.hasOwn(subskills, subskill)) return { command: found.command, subskill, flags };
  throw new UsageError(
    `--subskill "${subskill}" is no sub-skill. There are: ${Object.keys(subskills).join(', ') || 'none'}.`,
  );
}

function commandAt(argv: readonly string[]): { readonly command: Command; readonly args: readonly string[] } | null {
  const [first = ''] = argv;
  if (first === 'start' || first === 'advance' || first === 'cleanup') return { command: first, args: argv.slice(1) };
  return first.startsWith('-') ? { command: 'start', args: argv } : null;
}

function isHelp(word: string | undefined): boolean {
  return word === '--help' || word === '-h';
}

/** Looked for when something is loaded: most calls load nothing. */
function lazyLoader({ script }: CommandIo, base: string | undefined): ReferenceLoader {
  let loader: ReferenceLoader | undefined;
  const real = (): ReferenceLoader => (loader ??= createReferenceLoader(base ?? skillDirOf(script ?? 'skill')));
  return { load: (filename) => real().load(filename), asset: (path) => real().asset(path) };
}

async function reported(io: CommandIo, work: () => Promise<void>): Promise<number> {
  try {
    await work();
    return 0;
  } catch (cause) {
    io.stderr(`error: ${messageOf(cause)}\n`);
    return cause instanceof UsageError ? EXIT_USAGE : EXIT_ERROR;
  }
}
