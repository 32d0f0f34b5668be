"""What needs an authorizer, SASL or quotas, asked of a broker that has none of them."""

from __future__ import annotations

from typing import Any

from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from odradek.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.protocol.messages.describe_acls import DescribeAclsRequest
from odradek.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from odradek.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from odradek.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from odradek.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from odradek.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.scripts.talk import Talk, versions_of

TOPIC, LITERAL, ANY_PATTERN, READ, ANY_OPERATION, ALLOW, ANY_PERMISSION = 2, 3, 1, 3, 1, 3, 1
EXACT, DEFAULT, ANY = range(3)


def play(talk: Talk) -> None:
    """Each API in each of its versions, then what a request may say wrongly."""
    acls(talk)
    tokens(talk)
    quotas(talk)
    credentials(talk)
    for version in versions_of(SaslHandshakeRequest):
        talk.ask("a handshake", SaslHandshakeRequest(mechanism="PLAIN"), version)
    for version in versions_of(SaslAuthenticateRequest):
        talk.ask("a password", SaslAuthenticateRequest(auth_bytes=b"\0u\0p"), version)


def acls(talk: Talk) -> None:
    """DescribeAcls, CreateAcls and DeleteAcls."""
    any_acl: dict[str, Any] = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY_OPERATION,
        "permission_type": ANY_PERMISSION,
    }
    creation = AclCreation(
        resource_type=TOPIC,
        resource_name="t",
        principal="User:u",
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )
    for version in versions_of(DescribeAclsRequest):
        pattern = LITERAL if version == 0 else ANY_PATTERN
        asked = DescribeAclsRequest(**any_acl, pattern_type_filter=pattern)
        talk.ask("acls", asked, version)
        talk.ask("two new acls", CreateAclsRequest(creations=[creation, creation]), version)
        talk.ask("no new acl", CreateAclsRequest(creations=[]), version)
        each = DeleteAclsFilter(**any_acl, pattern_type_filter=pattern)
        talk.ask("two deletions of acls", DeleteAclsRequest(filters=[each, each]), version)
    unknown = DescribeAclsRequest(**{**any_acl, "operation": 0})
    talk.ask("acls of an unknown operation", unknown, 3)


def tokens(talk: Talk) -> None:
    """The four APIs of delegation tokens."""
    for version in versions_of(CreateDelegationTokenRequest):
        renewer = CreatableRenewers(principal_type="User", principal_name="u")
        asked = CreateDelegationTokenRequest(renewers=[renewer], max_lifetime_ms=-1)
        talk.ask("a new token", asked, version)
        strange = CreatableRenewers(principal_type="Group", principal_name="g")
        asked = CreateDelegationTokenRequest(renewers=[strange], max_lifetime_ms=-1)
        talk.ask("a new token for a group", asked, version)
    owned = CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name="u", renewers=[], max_lifetime_ms=-1
    )
    talk.ask("a new token of another owner", owned, 3)
    for version in versions_of(RenewDelegationTokenRequest):
        renewal = RenewDelegationTokenRequest(hmac=b"hmac", renew_period_ms=-1)
        talk.ask("a renewal", renewal, version)
        end = ExpireDelegationTokenRequest(hmac=b"hmac", expiry_time_period_ms=-1)
        talk.ask("the end of a token", end, version)
    owner = DescribeDelegationTokenOwner(principal_type="User", principal_name="u")
    for version in versions_of(DescribeDelegationTokenRequest):
        talk.ask("all tokens", DescribeDelegationTokenRequest(owners=None), version)
        talk.ask("tokens of no owner", DescribeDelegationTokenRequest(owners=[]), version)
        talk.ask("tokens of one owner", DescribeDelegationTokenRequest(owners=[owner]), version)


def quotas(talk: Talk) -> None:
    """DescribeClientQuotas; AlterClientQuotas would make some."""

    def filter_of(*components: tuple[str, int, str | None]) -> DescribeClientQuotasRequest:
        return DescribeClientQuotasRequest(
            components=[
                ComponentData(entity_type=entity, match_type=kind, match=match)
                for entity, kind, match in components
            ],
            strict=False,
        )

    for version in versions_of(DescribeClientQuotasRequest):
        talk.ask("all quotas", filter_of(), version)
        talk.ask("quotas of users", filter_of(("user", ANY, None)), version)
    for label, components in (
        ("a user and a client", [("user", EXACT, "u"), ("client-id", DEFAULT, None)]),
        ("an address", [("ip", EXACT, "127.0.0.1")]),
        ("an address that is none", [("ip", EXACT, "not an address")]),
        ("a user twice", [("user", EXACT, "u"), ("user", EXACT, "v")]),
        ("a user and an address", [("user", EXACT, "u"), ("ip", ANY, None)]),
        ("a strange entity", [("planet", ANY, None)]),
        ("an entity without a name", [("", ANY, None)]),
        ("a strange match", [("user", 9, None)]),
        ("an exact match of nothing", [("user", EXACT, None)]),
        ("a default with a name", [("user", DEFAULT, "u")]),
        ("any with a name", [("user", ANY, "u")]),
    ):
        talk.ask(f"quotas of {label}", filter_of(*components), 1)


def credentials(talk: Talk) -> None:
    """DescribeUserScramCredentials; AlterUserScramCredentials would make some."""

    def users(*names: str) -> DescribeUserScramCredentialsRequest:
        return DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names])

    everyone = DescribeUserScramCredentialsRequest(users=None)
    talk.ask("credentials of all users", everyone, 0)
    talk.ask("credentials of no user", users(), 0)
    talk.ask("credentials of two users", users("u", "v"), 0)
    talk.ask("credentials of a user twice", users("u", "u", "v"), 0)
    talk.ask("credentials of a user without a name", users(""), 0)
