/** The text of the systemd user unit that starts the embedded stack, or `serve` with your own Temporal server. */
import { createHash } from 'node:crypto';
import { createUsageError } from '../app-error.ts';

export const UNIT_NAME = 'voidbox.service';

export interface UnitFacts {
  /** The absolute path of Node. */
  readonly node: string;
  /** The absolute path of the program of the command line. */
  readonly main: string;
  readonly variables: Readonly<Record<string, string>>;
}

const FIRST_LINE = '# Made by `voidbox service install`. Change it with a drop-in: systemctl --user edit voidbox';
const HASH_LINE = '# SHA-256 of the following lines: ';

/**
 * `KillMode=process` leaves the VMs of open runs to their keepers when the unit stops. `OOMPolicy=continue` keeps the
 * stack if the kernel ends one VM for lack of memory. `Delegate=` lets keepers make control groups of VMs. The processes
 * are in a group below that of the unit, because a group of version 2 has processes or limits, never both.
 * @throws AppError `cli/usage` for a value that a unit cannot contain
 */
export function renderUnit({ node, main, variables }: UnitFacts): string {
  const command = quoteCommand([node, main]);
  const names = Object.keys(variables).toSorted();
  const environment = names.map((name) => `Environment=${quoteWord(name, `${name}=${variables[name]!}`)}`);
  const body = `[Unit]
Description=Voidbox, embedded stack

[Service]
Type=oneshot
RemainAfterExit=yes
${environment.join('\n')}
ExecStart=${command} up
ExecStop=${command} down
Restart=on-failure
RestartSec=30
KillMode=process
OOMPolicy=continue
Delegate=cpu memory
DelegateSubgroup=voidbox

[Install]
WantedBy=default.target
`;
  return sign(body);
}

export interface ServeUnitFacts extends Omit<UnitFacts, 'variables'> {
  /** The arguments of `serve`, as `quoteCommand` writes them. */
  readonly quotedArguments: string;
  /** The absolute path of the file of variables, which only its user can read. */
  readonly variablesFile: string;
}

/**
 * A mistake in the options ends it (exit code 2), because no further start helps.
 * @throws AppError `cli/usage` for a path that a unit cannot contain
 */
export function renderServeUnit({ node, main, quotedArguments, variablesFile }: ServeUnitFacts): string {
  requireUnitText('the path of the file of variables', variablesFile);
  return sign(`[Unit]
Description=Voidbox, HTTP API with your own Temporal server
StartLimitIntervalSec=0

[Service]
Type=exec
EnvironmentFile=${variablesFile.replaceAll('%', '%%')}
ExecStart=${quoteCommand([node, main])} serve${quotedArguments === '' ? '' : ` ${quotedArguments}`}
Restart=on-failure
RestartPreventExitStatus=2
RestartSec=10
KillMode=mixed
TimeoutStopSec=30
LimitNOFILE=65536

[Install]
WantedBy=default.target
`);
}

/** Returns the arguments of `serve` in an own unit, quoted; null: it starts the stack. */
export function readServeArguments(unit: string): string | null {
  return /^ExecStart="(?:[^"\\]|\\.)*" "(?:[^"\\]|\\.)*" serve ?(.*)$/m.exec(unit)?.[1] ?? null;
}

const FIRST_LINE_OF_VARIABLES = '# Made by `voidbox service install` for the unit of `serve`. It may contain secrets.';

/**
 * Renders a file for `EnvironmentFile=` (systemd.exec(5)), in which `%` and `$NAME` have no meaning.
 * @throws AppError `cli/usage` for a value that it cannot contain
 */
export function renderVariablesFile(variables: Readonly<Record<string, string>>): string {
  const lines = Object.keys(variables)
    .toSorted()
    .map((name) => {
      requireUnitText(name, variables[name]!);
      return `${name}="${variables[name]!.replaceAll(/[\\"`$]/g, String.raw`\$&`)}"`;
    });
  return `${[FIRST_LINE_OF_VARIABLES, ...lines].join('\n')}\n`;
}

export function isOwnVariablesFile(text: string): boolean {
  return text.startsWith(`${FIRST_LINE_OF_VARIABLES}\n`);
}

/** Quotes the words of a command. `$` begins a variable in them. */
export function quoteCommand(words: readonly string[]): string {
  return words.map((word) => quoteWord('this word of its command', word.replaceAll('$', '$$$$'))).join(' ');
}

function sign(body: string): string {
  return `${FIRST_LINE}\n${HASH_LINE}${hash(body)}\n${body}`;
}

/** `own`: this command wrote it, and no person has changed it since. */
export type UnitOrigin = 'own' | 'foreign';

export function findUnitOrigin(text: string): UnitOrigin {
  const [first, second = '', ...rest] = text.split('\n');
  const isOwn = first === FIRST_LINE && second === `${HASH_LINE}${hash(rest.join('\n'))}`;
  return isOwn ? 'own' : 'foreign';
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** Quotes one word of a unit (systemd.syntax(7)). `%` begins a specifier there. */
function quoteWord(what: string, text: string): string {
  requireUnitText(what, text);
  return `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('%', '%%')}"`;
}

/** @throws AppError `cli/usage` */
function requireUnitText(what: string, text: string): void {
  if (/\p{Cc}|\p{Surrogate}|\uFFFD/u.test(text))
    throw createUsageError(
      `a unit of systemd cannot contain ${what}: it has a control character, or bytes that are not UTF-8`,
      `Use another value, or unset ${what}.`,
    );
}
