import { askTokenService } from '../../../app/access/token-service.ts';
import type { ApprovalLink } from '../../../app/approval-links/approval-links.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { findRunHere } from '../../../app/runs/run-elsewhere.ts';
import { formatRunId } from '../../../app/runs/run-id.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { createForeignError } from '../../access/answers.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { reportProgress } from '../../secrets/options.ts';

interface Options {
  readonly as?: string;
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  help: {
    common: ['--as'],
    examples: [
      ['voidbox approval link release-1 --as anna', 'for the only stage that asks'],
      ['voidbox approval link release-1 ship --as anna --json | jq -r .url', 'only the URL, for a message'],
    ],
    notes: [
      [
        'The link',
        'Each holder of it may answer once under this name, without a token, until the deadline of the question, or for 7 days. It opens a page; only the form of the page answers, so a preview in a chat approves nothing.',
      ],
      ['The name', '`by` of the approval contains it. A token needs the scope `admin` to make a link.'],
      ['The address', 'The service listens over TCP: `voidbox up --listen HOST:PORT --public-url URL`.'],
    ],
    exitCodes: [
      ['0', 'the link is made'],
      ['1', 'the stage does not wait for an answer'],
      ['2', 'the approval does not ask this name, or an option has a mistake'],
      ['3', 'environment: the service has no address, or its key or its database cannot be used'],
    ],
  },
  configure: (command) => {
    command
      .argument('<run>', 'a run id, a unique prefix of one, or `latest`')
      .argument('[stage]', 'the stage that asks; optional if only one asks')
      .option('--as <name>', 'the name that answers');
  },
  async execute([runText = '', stage], { as, json }, context) {
    if (as === undefined)
      throw createUsageError('a link is for one name, and none is given', 'Give a name of the approval: --as NAME');
    const runId = await findRunHere('approval link', runText, context);
    const answer = await askTokenService(context, {
      method: 'POST',
      path: ['runs', runId, 'approval-links'],
      makesDatabase: true,
      body: { json: { as, ...(stage === undefined ? {} : { stage }) } },
      onProgress: reportProgress(context),
    });
    const link = parseLink(answer);
    if (json === true) {
      await context.stdout.write(`${JSON.stringify(link)}\n`);
      return EXIT.success;
    }
    const asked = `${sanitizeLine(link.stage)} of ${formatRunId(link.runId)}`;
    await context.stderr.write(
      `${sanitizeLine(link.as)} may answer ${asked} once, until ${sanitizeLine(link.expiresAt)}:\n`,
    );
    await context.stdout.write(`${sanitizeLine(link.url)}\n`);
    return EXIT.success;
  },
});

const FIELDS = ['url', 'link', 'runId', 'stage', 'as', 'expiresAt'] as const;

/** Returns only the fields that this version knows. */
function parseLink(answer: unknown): ApprovalLink {
  const given = (answer ?? {}) as Readonly<Record<string, unknown>>;
  const isLink = FIELDS.every((field) => typeof given[field] === 'string');
  if (!isLink) throw createForeignError();
  return Object.fromEntries(FIELDS.map((field) => [field, given[field]])) as unknown as ApprovalLink;
}
