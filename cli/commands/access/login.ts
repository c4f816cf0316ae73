import { findRunsPlace, createLogin, requireServer, requireToken, type RunsPlace } from '../../../app/access/login.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { readCertificates } from '../../../setup/service-settings.ts';
import { defineCommand } from '../../command.ts';
import type { CliContext } from '../../context.ts';
import { EXIT } from '../../exit-code.ts';

/** A token with ends of lines; more is another file. */
const MOST_INPUT_BYTES = 4_096;

interface Options {
  readonly tokenStdin?: true;
  readonly ca?: string;
  readonly status?: true;
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  takesAnyStateFormat: true,
  help: {
    common: ['--token-stdin', '--status'],
    examples: [
      ['voidbox login https://build.example.org:7443', 'asks for the token, which the terminal does not show'],
      ['voidbox login https://build.example.org:7443 --token-stdin < token', 'in a script'],
      ['voidbox login --status', 'the machine that commands use now'],
    ],
    notes: [
      [
        'The token',
        'It is checked by the service, and stored in a file that only you can read. Options cannot contain it, because other users see command lines.',
      ],
      ['Variables', 'VOIDBOX_SERVER takes precedence over the login.'],
    ],
    exitCodes: [
      ['0', 'commands use the service from now on'],
      ['2', 'the URL or the token has a mistake'],
      ['3', 'environment: the service does not answer, or refuses the token'],
    ],
  },
  configure: (command) => {
    command
      .argument('[url]', 'the service: https://HOST:PORT, or unix: and the path of an api.sock')
      .option('--token-stdin', 'read the token from standard input')
      .option('--ca <file>', 'certificates (PEM) that prove the service; they are copied to the login')
      .option('--status', 'show the machine that commands use now');
  },
  async execute([url], { tokenStdin, ca, status, json }, context) {
    const { env, stdout, stderr } = context;
    if (status === true) {
      if (url !== undefined) throw createUsageError('--status has no URL', 'Use one of them.');
      const place = findRunsPlace(env);
      await stdout.write(json === true ? `${JSON.stringify(place)}\n` : renderPlace(place));
      return EXIT.success;
    }
    if (url === undefined)
      throw createUsageError('the URL of the service is missing', 'Name it: voidbox login https://HOST:PORT');
    const { needsToken } = requireServer(url);
    const certificates =
      ca === undefined ? null : readCertificates(ca, '--ca', 'Name a file with certificates in PEM.');
    const token = needsToken ? requireToken(await readToken(context, tokenStdin === true)) : null;
    const facts = await createLogin({ server: url, token, ca: certificates }, env);
    if (json === true) {
      await stdout.write(`${JSON.stringify(facts)}\n`);
      return EXIT.success;
    }
    await stderr.write(
      `Commands about runs now use ${sanitizeLine(url)} (voidbox ${sanitizeLine(facts.version)}). The login is in ${facts.file}.\n`,
    );
    if (env.service !== null)
      await context.warn(`VOIDBOX_SERVER names ${env.service.name}, and takes precedence until you unset it`);
    return EXIT.success;
  },
});

async function readToken(context: CliContext, isPiped: boolean): Promise<string | null> {
  if (!isPiped && context.hasTerminalInput) {
    const typed = await context.askSecret('Token:');
    if (typed === null && !context.stderr.isTerminal)
      throw createUsageError('the token cannot be asked for', 'Pipe it: voidbox login URL --token-stdin < FILE');
    return typed;
  }
  const chunks: Uint8Array[] = [];
  let size = 0;
  const enough = new AbortController();
  for await (const chunk of context.openStdin(enough.signal)) {
    size += chunk.length;
    chunks.push(chunk);
    if (size > MOST_INPUT_BYTES) enough.abort();
  }
  if (size > MOST_INPUT_BYTES)
    throw createUsageError(
      'standard input is larger than a token',
      'Pipe only the line that `voidbox token create` printed.',
    );
  return Buffer.concat(chunks).toString('utf8');
}

function renderPlace({ server, from, login, file }: RunsPlace): string {
  const name = server === null ? 'this machine' : sanitizeLine(server);
  const lines = {
    VOIDBOX_SERVER: `Commands use ${name}: VOIDBOX_SERVER names it.`,
    login: `Commands use ${name}: the login in ${file} names it.`,
    TEMPORAL: 'Commands use your own Temporal server: TEMPORAL_* names it.',
    'this machine': 'Commands use this machine.',
  };
  const other = login !== null && from !== 'login' ? `The login in ${file} names ${sanitizeLine(login)}.\n` : '';
  return `${lines[from]}\n${other}`;
}
