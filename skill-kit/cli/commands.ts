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
import { topicList, topicText, type Topics } from './topics.ts';
import { checkUsage, type Command, isDurable, surplusArgument } from './usage.ts';
import { shorten } from '../../domain/units/quote.ts';

const EXIT_ERROR = 1;
const EXIT_USAGE = 2;

interface Route {
  readonly command: Command;
  readonly subskill: string | undefined;
  readonly flags: Flags;
}

/** @returns the exit code */
export async function runSkillCommand(definition: SkillDefinition, io: CommandIo, refsBase?: string): Promise<number> {
  return reportErrors(io, async () => {
    const refs = lazyLoader(io, refsBase);
    const { topics } = definition;
    if (topics !== undefined && !io.argv.some(isHelp)) {
      const text = topicOutput(topics, io.argv, refs);
      if (text !== null) return io.stdout(text);
    }
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
  return reportErrors(io, async () => {
    const { argv } = io;
    if (argv.some(isHelp)) return io.stderr(referenceHelp({ topics, ...reference }));
    const text = topicOutput(topics, argv.length === 0 ? ['topics'] : argv, lazyLoader(io, base));
    if (text === null) throw new UsageError(`"${argv[0]}" is not a command. Commands: topics, topic <name>, mcp.`);
    io.stdout(text);
  });
}

/** Null: the command is another one. @throws {Error} for a topic that does not exist @throws {UsageError} */
function topicOutput(topics: Topics, [command, ...args]: readonly string[], refs: ReferenceLoader): string | null {
  if (command !== 'topics' && command !== 'topic') return null;
  const surplus = args[command === 'topics' ? 0 : 1];
  if (surplus !== undefined) throw surplusArgument(command, surplus);
  return command === 'topics' ? topicList(topics) : topicText(topics, args[0], refs);
}

async function outcomeOf(command: Command, call: SkillCall): Promise<Outcome> {
  const { session, turn } = call.flags.text;
  // A durable session gets its variables at its start, so `advance` of one does not need them.
  if (command === 'start' || (command === 'advance' && !isDurable(command, call.flags)))
    call.io.enter?.(call.definition);
  if (isDurable(command, call.flags)) return await durableOutcome(command, call);
  if (turn !== undefined) call.io.stderr('warning: ignoring --turn, which is for durable sessions\n');
  switch (command) {
    case 'start':
      return session === undefined ? startStateless(call) : startStored(call);
    case 'advance':
      return session === undefined ? advanceStateless(call) : advanceStored(call, session);
    case 'cleanup':
      return cleanupStored(call);
  }
}

/** Loads the code that finds Voidbox only for commands that need it. */
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

/** Null: the help is asked for. @throws {UsageError} for a command or a sub-skill that does not exist */
function routeOf({ subskills = {}, topics }: SkillDefinition, argv: readonly string[]): Route | null {
  const [first, ...rest] = argv;
  if (first === undefined || isHelp(first)) return null;
  const own = commandAt(argv);
  // Commands come before sub-skills of the same name, which --subskill reaches.
  const sub = own === null && Object.hasOwn(subskills, first) ? first : undefined;
  const found = sub === undefined ? own : rest.length === 0 ? { command: 'start' as const, args: [] } : commandAt(rest);
  if (found === null) {
    const known = ['start', 'advance', 'cleanup', 'mcp', ...(topics === undefined ? [] : ['topics', 'topic'])];
    if (sub !== undefined)
      throw new UsageError(`"${rest[0]}" is not a command of ${sub}. There are: start, advance, cleanup.`);
    throw new UsageError(
      `"${shorten(first)}" is not a command. There are: ${[...known, ...Object.keys(subskills)].join(', ')}.`,
    );
  }
  const flags = parseFlags(found.args);
  if (flags.help) return null;
  checkUsage(found.command, flags);
  const subskill = flags.text.subskill ?? sub;
  if (subskill === undefined || Object.hasOwn(subskills, subskill)) return { command: found.command, subskill, flags };
  throw new UsageError(
    `--subskill "${shorten(subskill)}" is not a sub-skill. There are: ${Object.keys(subskills).join(', ') || 'none'}.`,
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

async function reportErrors(io: CommandIo, work: () => Promise<void>): Promise<number> {
  try {
    await work();
    return 0;
  } catch (cause) {
    io.stderr(`error: ${messageOf(cause)}\n`);
    return cause instanceof UsageError ? EXIT_USAGE : EXIT_ERROR;
  }
}
