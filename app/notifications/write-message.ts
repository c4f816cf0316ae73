/** Writes the request with a notice for a receiver. */
import type { NoticeMessage, NoticeQuestion } from '../../domain/notification/notice.ts';
import { CLOUDEVENTS_DEFAULTS, findUrlProblem, type NotifyTarget } from '../../domain/notification/notify.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { GuardedPost } from '../../http/guarded-post.ts';
import { BATCHED_TYPE, STRUCTURED_TYPE } from '../cloud-events/media-types.ts';
import { STANDARD_WEBHOOKS } from '../hooks/standard-webhooks.ts';

export interface WriteRequest {
  readonly id: string;
  readonly message: NoticeMessage;
  readonly target: NotifyTarget;
  /** The value of the secret that the target names. Null: it names no secret, or the deployment does not have it. */
  readonly secret: string | null;
  /** The page on which a person can answer. Null: no page. */
  readonly link: string | null;
  /** The time of the try, which signatures contain. */
  readonly nowMs: number;
}

/** @returns the problem of the secret instead, without its value */
export function writeRequest(request: WriteRequest): GuardedPost | { readonly problem: string } {
  const { target, secret } = request;
  switch (target.kind) {
    case 'webhook':
      return secret === null || secret === ''
        ? createMissing(target.secret)
        : writeWebhook(target.url, secret, request);
    case 'slack':
      return secret === null || secret === ''
        ? createMissing(target.secret)
        : writeSlack(target.secret, secret, request);
    case 'cloudevents':
      return writeCloudEvent(target, request);
  }
}

function createMissing(name: string): { readonly problem: string } {
  return { problem: `the deployment has no secret ${name}` };
}

function writeWebhook(url: string, secret: string, request: WriteRequest): GuardedPost | { readonly problem: string } {
  const { id, message, nowMs } = request;
  const timestamp = new Date(message.atMs).toISOString();
  const body = JSON.stringify({ type: findType(message), timestamp, data: describeNotice(request) });
  const signed = STANDARD_WEBHOOKS.sign({ body: Buffer.from(body), nowMs, id }, secret);
  if (signed === null) return { problem: 'the secret of a webhook is base64, with or without `whsec_` before it' };
  return { url, body, headers: { 'content-type': 'application/json', ...signed }, privateHeaders: {} };
}

function writeCloudEvent(
  { url, token, mode = CLOUDEVENTS_DEFAULTS.mode }: Extract<NotifyTarget, { readonly kind: 'cloudevents' }>,
  request: WriteRequest,
): GuardedPost | { readonly problem: string } {
  const { id, message, secret } = request;
  if (token !== null && (secret === null || secret === '')) return createMissing(token);
  if (secret !== null && !/^[\x21-\x7e]+$/.test(secret))
    return { problem: 'the token of `cloudevents` has a character that a header cannot have' };
  const attributes = {
    specversion: '1.0',
    id,
    source: `/deployments/${message.deployment}`,
    type: findType(message),
    time: new Date(message.atMs).toISOString(),
    subject: message.runId ?? message.trigger,
  };
  const data = describeNotice(request);
  const privateHeaders: Readonly<Record<string, string>> = secret === null ? {} : { authorization: `Bearer ${secret}` };
  if (mode === 'binary') {
    // Names of deployments, runs and triggers have no character that a header encodes.
    const named = Object.entries(attributes).map(([name, value]) => [`ce-${name}`, value] as const);
    const headers = { 'content-type': 'application/json', ...Object.fromEntries(named) };
    return { url, body: JSON.stringify(data), headers, privateHeaders };
  }
  const event = { ...attributes, datacontenttype: 'application/json', data };
  // Each message has its own tries, so a batch has one event.
  const isBatch = mode === 'batched';
  const headers = { 'content-type': `${isBatch ? BATCHED_TYPE : STRUCTURED_TYPE}; charset=utf-8` };
  return { url, body: JSON.stringify(isBatch ? [event] : event), headers, privateHeaders };
}

function writeSlack(
  name: string,
  secret: string,
  { message, link }: WriteRequest,
): GuardedPost | { readonly problem: string } {
  const url = secret.trim();
  if (findUrlProblem(url) !== null) return { problem: `the secret ${name} is not the URL of an incoming webhook` };
  const lines = [describeSlack(message), ...listSlackDetails(message)].map(escapeSlack);
  const plain = lines.map((text) => ({ type: 'section', text: { type: 'plain_text', text, emoji: false } }));
  // The service makes the link: it does not contain the characters that end one.
  const linked =
    link === null ? [] : [{ type: 'section', text: { type: 'mrkdwn', text: `<${link}|Answer the question>` } }];
  const body = JSON.stringify({
    text: lines[0],
    blocks: [...plain, ...linked],
    unfurl_links: false,
    unfurl_media: false,
  });
  return { url, body, headers: { 'content-type': 'application/json; charset=utf-8' }, privateHeaders: {} };
}

function describeSlack({ deployment, kind, text, runId }: NoticeMessage): string {
  return `${deployment}: ${kind}: ${sanitizeLine(text)}${runId === null ? '' : ` (run ${sanitizeLine(runId)})`}`;
}

function listSlackDetails({ code, message, question }: NoticeMessage): readonly string[] {
  return [
    ...(code === null ? [] : [sanitizeLine(`${code}: ${message ?? ''}`)]),
    ...(question === null ? [] : [sanitizeLine(question.message)].filter((text) => text !== '')),
  ];
}

/** Without these characters no text of a guest mentions a channel or hides an address behind other words. */
function escapeSlack(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

function findType({ kind, runId, delivery }: NoticeMessage): string {
  return `voidbox.${runId === null && delivery === null ? 'schedule' : 'run'}.${kind}`;
}

/** The content of messages to programs. Texts of guests have no control characters, because logs print messages. */
function describeNotice({ message, link }: WriteRequest): object {
  const { deployment, version, trigger, delivery, runId, kind, text, stage, code, question } = message;
  return {
    deployment,
    version,
    trigger,
    delivery,
    run: runId,
    state: kind,
    text: sanitizeLine(text),
    stage,
    code,
    message: message.message === null ? null : sanitizeLine(message.message),
    question: question === null ? null : describeQuestion(question),
    link,
  };
}

function describeQuestion({ message, by, deadlineAtMs, item }: NoticeQuestion): object {
  return {
    message: sanitizeLine(message),
    by,
    deadline: deadlineAtMs === null ? null : new Date(deadlineAtMs).toISOString(),
    item: item === null ? null : sanitizeLine(item),
  };
}
