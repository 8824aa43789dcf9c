"""Accounts: users, workspaces, credentials, rate limits. Depends on streams and system."""

from __future__ import annotations

from apps.accounts.conf import password_sign_in_enabled
from apps.accounts.domain.api_tokens import TokenScope
from apps.accounts.domain.ci_sessions import is_program_token
from apps.accounts.domain.device_codes import scopes_of, shown_user_code
from apps.accounts.domain.errors import ExternalSignInRefused, Forbidden, Unauthenticated
from apps.accounts.domain.external_identity import (
    ExternalIdentity,
    external_identity,
    safe_return_url,
)
from apps.accounts.domain.principal import Principal, visible_workspaces
from apps.accounts.domain.roles import Role
from apps.accounts.domain.tokens import is_access_token
from apps.accounts.selectors import (
    SignInProvider,
    email_of,
    has_several_workspaces,
    offers_sign_up,
    sign_in_provider,
    sign_in_providers,
    workspace_names,
)
from apps.accounts.services.administrators import (
    FirstAdministrator,
    first_administrator,
    operator,
    replace_administrator_token,
    revoke_local_token,
)
from apps.accounts.services.api_tokens import (
    api_tokens_of,
    create_api_token,
    revoke_api_token,
)
from apps.accounts.services.authentication import (
    attach_session,
    authenticate_request,
    authenticate_stream,
    principal_of,
    recheck,
    require_principal,
)
from apps.accounts.services.device_authorization import (
    approve_device,
    deny_device,
    find_device_authorization,
)
from apps.accounts.services.external_accounts import (
    complete_sign_in,
    failed_sign_in_url,
    limit_external_sign_in,
)
from apps.accounts.services.invitations import (
    NewInvitation,
    invitations_to,
    invite,
    revoke_invitation,
)
from apps.accounts.services.password_reset import (
    offers_reset,
    request_reset_page,
    reset_password_page,
)
from apps.accounts.services.passwords import change_password_session
from apps.accounts.services.rate_limits import limit_rate
from apps.accounts.services.second_factor import (
    begin_second_factor,
    confirm_second_factor,
    pending_second_factor,
    remove_second_factor,
    replace_recovery_codes,
    second_factor_of,
)
from apps.accounts.services.sign_in import (
    finish_sign_in_session,
    sign_in_session,
    sign_out_session,
    sign_up_session,
)
from apps.accounts.services.sign_ins import end_sign_in, sign_ins_of
from apps.accounts.services.token_pairs import end_every_sign_in, revoke_everything
from apps.accounts.services.workspaces import (
    change_role,
    create_workspace,
    members_of,
    remove_member,
    switch_workspace,
    workspaces_of,
)
