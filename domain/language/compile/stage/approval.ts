import { APPROVAL_DEFAULTS, FIELD_DEFAULTS } from '../../../plan/defaults.ts';
import { type ApprovalField, type ApprovalWork, PLAN_LIMITS } from '../../../plan/plan.ts';
import { countUtf8Bytes } from '../../../units/utf8.ts';
import type { Filler } from '../../grammar/placeholders.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { StageSpec } from '../../read/spec.ts';
import type { Position } from '../../text/tree.ts';
import { quote } from '../../../units/quote.ts';

type ApprovalSpec = NonNullable<StageSpec['approval']>;

export function compileApproval(approval: ApprovalSpec, what: string, fill: Filler, problems: Problems): ApprovalWork {
  const work: ApprovalWork = {
    kind: 'approval',
    message: fill(approval.message),
    by: approval.by.map(({ value }) => value),
    selfApproval: approval.selfApproval ?? APPROVAL_DEFAULTS.selfApproval,
    timeoutMs: approval.timeoutMs ?? APPROVAL_DEFAULTS.timeoutMs,
    onTimeout: approval.onTimeout?.value ?? APPROVAL_DEFAULTS.onTimeout,
    fields: compileFields(approval, what, problems),
  };
  refuseMore(approval.by, PLAN_LIMITS.approvers, `\`by\` of ${what}`, problems);
  refuseMore(approval.fields, PLAN_LIMITS.approvalFields, `\`fields\` of ${what}`, problems);
  if (work.message.length > PLAN_LIMITS.messageCharacters)
    problems.error(
      'spec/too-large',
      approval.message.at,
      `the message of ${what} has ${work.message.length} characters; at most ${PLAN_LIMITS.messageCharacters} are allowed`,
      'move the details to the output of an earlier stage, and refer to it here',
    );
  if (approval.onTimeout !== null && approval.timeoutMs === null)
    problems.warning(
      'spec/bad-value',
      approval.onTimeout.at,
      `${what} has \`on_timeout\` and no \`timeout\`: it never applies`,
      'add a `timeout`, or remove it',
    );
  if (!work.selfApproval && approval.onTimeout?.value === 'approve')
    problems.error(
      'spec/bad-value',
      approval.onTimeout.at,
      `${what} has \`self_approval: false\` and \`on_timeout: approve\`: its deadline would approve without a proven answer`,
      'write `on_timeout: reject`, or remove it',
    );
  const bytes = countUtf8Bytes(JSON.stringify(work));
  if (bytes > PLAN_LIMITS.approvalBytes)
    problems.error(
      'spec/too-large',
      approval.at,
      `the approval of ${what} has ${bytes} bytes; at most ${PLAN_LIMITS.approvalBytes} are allowed`,
      'shorten its descriptions and choices',
    );
  return work;
}

function compileFields(approval: ApprovalSpec, what: string, problems: Problems): readonly ApprovalField[] {
  const seen = new Map<string, number>();
  return approval.fields.map((field) => {
    const { name, choices } = field;
    const first = seen.get(name.value);
    if (first !== undefined)
      problems.error(
        'spec/duplicate-name',
        name.at,
        `the approval of ${what} has two fields with the name ${quote(name.value)}, the first on line ${first}`,
        'rename one of them',
      );
    else seen.set(name.value, name.at.line);
    refuseMore(choices, PLAN_LIMITS.choices, `\`choices\` of the field ${quote(name.value)}`, problems);
    const type = field.type?.value ?? (choices.length > 0 ? 'choice' : FIELD_DEFAULTS.type);
    if ((type === 'choice') !== choices.length > 0)
      problems.error(
        'spec/bad-value',
        field.at,
        type === 'choice'
          ? `the field ${quote(name.value)} of ${what} is a choice without \`choices\``
          : `the field ${quote(name.value)} of ${what} has \`choices\` and the type \`${type}\``,
        type === 'choice' ? 'list its `choices`' : 'write `type: choice`, or remove `choices`',
      );
    return {
      name: name.value,
      type,
      required: field.required ?? FIELD_DEFAULTS.required,
      description: field.description?.value ?? FIELD_DEFAULTS.description,
      choices: choices.map(({ value }) => value),
    };
  });
}

function refuseMore(items: readonly { readonly at: Position }[], most: number, what: string, problems: Problems): void {
  const over = items[most];
  if (over !== undefined)
    problems.error(
      'spec/too-large',
      over.at,
      `${what} has ${items.length} items; at most ${most} are allowed`,
      'remove some',
    );
}
