import { InvalidArgumentError } from 'commander';
import { askTokenService } from '../../../app/access/token-service.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { isScope, type Scope, SCOPES } from '../../../domain/access/scopes.ts';
import { parseDurationMs } from '../../../domain/units/duration.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { renderToken } from '../../render/access/tokens.ts';
import { parseCreatedToken } from '../../access/answers.ts';

interface Options {
  readonly scope?: readonly Scope[];
  readonly runs?: readonly string[];
  readonly groups?: readonly string[];
  readonly allowGit?: readonly string[];
  /** False: it does not expire. */
  readonly expiry?: false;
  readonly expires?: number;
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  help: {
    common: ['--scope', '--runs', '--expires'],
    examples: [
      ['voidbox token create ci --scope run', 'a program that starts, follows and cancels runs, for 90 days'],
      ['voidbox token create dashboard --scope read --expires 365d', 'a program that only reads'],
      ["voidbox token create nightly --scope run --runs 'nightly-*'", 'only runs whose id begins with `nightly-`'],
    ],
    notes: [
      [
        'Scopes',
        'read: list, read and follow runs. run: also start and cancel them. approve: read, and answer approvals. admin: everything, also tokens and the audit log.',
      ],
      [
        'The text',
        'The command prints the token once; only its hash is stored. A client sends it as `Authorization: Bearer TOKEN`, or a command line as VOIDBOX_TOKEN.',
      ],
    ],
    exitCodes: [
      ['0', 'the token exists'],
      ['2', 'an option has a mistake, or a token has the name'],
      ['3', 'environment: the stack or its database does not answer'],
    ],
  },
  configure: (command) => {
    command
      .argument('<name>', 'the name of the token, in the list and in the audit log')
      .option('--scope <scope...>', `its permissions: ${SCOPES.join(', ')}`, parseScopes)
      .option('--runs <pattern...>', 'only runs whose id matches a pattern; `*` matches any text (default: every run)')
      .option('--groups <group...>', 'its groups, which approvals may name')
      .option('--allow-git <host/path...>', 'repositories that its runs may fetch')
      .option('--expires <age>', 'its life: 12h, 90d (default: 90d)', parseAge)
      .option('--no-expiry', 'it does not expire');
  },
  async execute([name = ''], options, context) {
    const { scope = [], runs = [], groups = [], allowGit = [], expires, expiry } = options;
    if (scope.length === 0) throw createUsageError('a token needs a scope', `Name it: --scope ${SCOPES.join('|')}`);
    if (expiry === false && expires !== undefined)
      throw createUsageError('--expires and --no-expiry contradict each other', 'Use one of them.');
    const lifeMs = expiry === false ? null : expires;
    const answer = await askTokenService(context, {
      method: 'POST',
      path: ['tokens'],
      makesDatabase: true,
      body: { json: { name, scopes: scope, runs, groups, allowGit, ...(lifeMs === undefined ? {} : { lifeMs }) } },
      onProgress: (line) => void context.stderr.write(`==> ${line}\n`),
    });
    const { text, ...token } = parseCreatedToken(answer);
    if (options.json === true) {
      await context.stdout.write(`${JSON.stringify({ ...token, text })}\n`);
      return EXIT.success;
    }
    await context.stderr.write(`${renderToken(token, context.now().getTime()).join('\n')}\n`);
    await context.stdout.write(`${text}\n`);
    await context.stderr.write('Keep the token now: it is not stored, and no command shows it again.\n');
    return EXIT.success;
  },
});

function parseScopes(text: string, before: readonly Scope[] = []): readonly Scope[] {
  if (isScope(text)) return [...before, text];
  throw new InvalidArgumentError(`It is one of ${SCOPES.join(', ')}.`);
}

function parseAge(text: string): number {
  const ms = parseDurationMs(text);
  if (ms !== null && ms > 0) return ms;
  throw new InvalidArgumentError('It must be a duration, such as 12h or 90d.');
}
