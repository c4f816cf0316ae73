import { askTokenService } from '../../../app/access/token-service.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { defineCommand } from '../../command.ts';
import { parseSent } from '../../deliveries/answers.ts';
import { addHeader, readPayload } from '../../deliveries/typed-event.ts';
import { EXIT } from '../../exit-code.ts';
import { countOf } from '../../typed-count.ts';

/** The most events of one request. */
const MOST_EVENTS = 100;

interface Options {
  readonly body?: readonly string[];
  readonly header?: Readonly<Record<string, string>>;
  readonly event?: string;
  readonly times?: number;
  readonly reorder?: true;
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  help: {
    common: ['--body', '--event', '--times', '--reorder'],
    examples: [
      ['voidbox delivery send review pull-request --body event.json --event pull_request', 'as GitHub sends it'],
      [
        'voidbox delivery send review pull-request --body event.json --times 2',
        'twice with one id, as GitHub repeats it',
      ],
      ['voidbox delivery send review pull-request --body 1.json --body 2.json --reorder', 'the second event first'],
    ],
    notes: [
      [
        'Signatures',
        'The service signs with the secret of the trigger, and verifies the event as if its sender had sent it. So the command needs a token with the scope admin on another machine, and no secret.',
      ],
    ],
    exitCodes: [
      ['0', 'each event is accepted'],
      ['1', 'an event was refused'],
      ['2', 'an option has a mistake, or there is no such webhook'],
      ['3', 'environment: the service or its database does not answer'],
    ],
  },
  configure: (command) => {
    command
      .argument('<deployment>', 'the name of the deployment')
      .argument('<trigger>', 'the name of a webhook in its `on:`')
      .option('--body <file>', 'the payload of an event, - for standard input; repeatable', addText)
      .option('--header <name:value>', 'a header beside those of the sender, which it replaces; repeatable', addHeader)
      .option('--event <name>', 'the name of the event, for GitHub and GitLab')
      .option('--times <number>', `send each event this often, with the same id; at most ${MOST_EVENTS}`, countOf(3))
      .option('--reorder', 'send the last event first');
  },
  async execute([deployment = '', trigger = ''], options, context) {
    const { body = [], header = {}, event, times = 1, reorder = false, json } = options;
    if (body.length === 0) throw createUsageError('an event needs a payload', 'Name its file: --body FILE');
    if (body.length * times > MOST_EVENTS)
      throw createUsageError(`${body.length * times} events are more than ${MOST_EVENTS}`, 'Send fewer: --times');
    const { 'content-type': contentType = 'application/json', ...headers } = header;
    const bodies: string[] = [];
    for (const file of body) bodies.push(Buffer.from(await readPayload(file, context)).toString('base64'));
    const answer = await askTokenService(context, {
      method: 'POST',
      path: ['deployments', deployment, 'triggers', trigger, 'send'],
      body: { json: { bodies, contentType, headers, times, reorder, ...(event === undefined ? {} : { event }) } },
      onProgress: (line) => void context.stderr.write(`==> ${line}\n`),
    });
    const sent = parseSent(answer);
    if (json === true) await context.stdout.write(`${JSON.stringify({ sent })}\n`);
    else
      for (const { body: at, delivery, deliveries, refusal } of sent) {
        const made = deliveries?.join(' ') ?? delivery ?? 'a challenge, which was answered';
        const outcome = refusal === null ? made : `refused: ${refusal}`;
        await context.stdout.write(`${sanitizeLine(body[at] ?? '')}  ${sanitizeLine(outcome)}\n`);
      }
    return sent.every(({ refusal }) => refusal === null) ? EXIT.success : EXIT.runFailed;
  },
});

function addText(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, text];
}
